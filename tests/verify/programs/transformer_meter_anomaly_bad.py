"""A transformer encoder that classifies token sequences, with running averages of loss and accuracy."""
import torch
from torch import nn


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.sum = self.sum + value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


class Classifier(nn.Module):
    def __init__(self, vocab=50, dim=32, heads=4, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(1, 12, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 2, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(dim, classes)

    def forward(self, tokens):
        h = self.encoder(self.embed(tokens) + self.pos)
        return self.head(h.mean(dim=1))


def train(model, optimizer, steps):
    loss_meter, acc_meter = AverageMeter("loss"), AverageMeter("acc")
    criterion = nn.CrossEntropyLoss()
    with torch.autograd.detect_anomaly():  # verify: anomaly-detection-left-on confirmed
        for step in range(steps):
            tokens = torch.randint(0, 50, (16, 12))
            labels = tokens[:, 0] % 3
            logits = model(tokens)
            loss = criterion(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss_meter.update(loss, len(tokens))  # verify: undetached-accumulation confirmed
            acc_meter.update((logits.argmax(-1) == labels).float().mean().item(), len(tokens))
    return loss_meter, acc_meter


if __name__ == "__main__":
    torch.manual_seed(3)
    torch.set_num_threads(1)
    net = Classifier()
    meters = train(net, torch.optim.AdamW(net.parameters(), lr=3e-4), steps=24)
    for m in meters:
        print(m.name, f"{float(m.avg):.3f}")
