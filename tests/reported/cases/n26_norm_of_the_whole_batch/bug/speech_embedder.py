import torch
import torch.nn as nn


class SpeechEmbedder(nn.Module):
    def __init__(self, nmels=40, hidden=64, proj=32):
        super().__init__()
        self.lstm = nn.LSTM(nmels, hidden, num_layers=2, batch_first=True)
        self.projection = nn.Linear(hidden, proj)

    def forward(self, x):
        x, _ = self.lstm(x.float())
        x = x[:, x.size(1) - 1]
        x = self.projection(x.float())
        x = x / torch.norm(x)
        return x


class GE2ELoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(10.0))
        self.b = nn.Parameter(torch.tensor(-5.0))

    def forward(self, embeddings):
        speakers, utterances, _ = embeddings.shape
        centroids = embeddings.mean(dim=1)
        sim = nn.functional.cosine_similarity(embeddings[:, :, None, :], centroids[None, None], dim=-1)
        sim = self.w * sim + self.b
        target = torch.arange(speakers).repeat_interleave(utterances)
        return nn.functional.cross_entropy(sim.view(-1, speakers), target)


def train(iters=10):
    net, ge2e = SpeechEmbedder(), GE2ELoss()
    optimizer = torch.optim.SGD([*net.parameters(), *ge2e.parameters()], lr=0.01)
    for _ in range(iters):
        mel = torch.randn(4, 5, 60, 40)
        optimizer.zero_grad()
        embeddings = net(mel.reshape(20, 60, 40))
        loss = ge2e(embeddings.view(4, 5, -1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 3.0)
        optimizer.step()


if __name__ == "__main__":
    train()
