import torch
import torch.nn as nn
from lora import AdaptedLinear, train_adapters_only

class Encoder(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.query = AdaptedLinear(dim, dim)
        self.value = AdaptedLinear(dim, dim)
    def forward(self, x):
        return torch.softmax(self.query(x) @ x.transpose(1, 2), -1) @ self.value(x)

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(256, 10)
    def forward(self, x):
        return self.head(self.encoder(x).mean(1))

def main(loader):
    model = Classifier()
    model.requires_grad_(False)
    train_adapters_only(model)
    model.head.requires_grad_(True)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
