import torch
import torch.nn as nn
import torch.nn.functional as F


class EmbedVector(nn.Module):
    def __init__(self, words_num, words_dim, hidden, label):
        super().__init__()
        self.embed = nn.Embedding(words_num, words_dim)
        self.lstm = nn.LSTM(words_dim, hidden, num_layers=2, bidirectional=True)
        self.attn = nn.Sequential(nn.Linear(2 * hidden + words_dim, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.hidden2tag = nn.Sequential(nn.Linear(2 * hidden + words_dim, hidden), nn.ReLU(), nn.Linear(hidden, label))

    def forward(self, text):
        x = self.embed(text)
        seq_len, batch, dim = x.size()
        outputs, _ = self.lstm(x)
        outputs = outputs.view(seq_len * batch, -1)
        x = x.view(seq_len * batch, dim)
        attn_weights = F.softmax(self.attn(torch.cat((x, outputs), 1)), dim=1)
        mixed = torch.cat((x, attn_weights * outputs), 1)
        mixed = mixed.view(seq_len, batch, -1)
        return self.hidden2tag(mixed.mean(0))


def run(epochs=2):
    model = EmbedVector(100, 12, 8, 20)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        model.train()
        for _ in range(10):
            text, goal = torch.randint(0, 100, (9, 4)), torch.randn(4, 20)
            optimizer.zero_grad()
            loss = criterion(model(text), goal)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    run()
