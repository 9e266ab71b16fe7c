import itertools
import torch
import torch.nn.functional as F
from model import TwoTowers

def build(lr=1e-3):
    model = TwoTowers()
    params = [
        {"params": itertools.chain(model.image_side.parameters(), model.text_side.parameters()), "lr": lr, "weight_decay": 1e-3},
    ]
    return model, torch.optim.AdamW(params, weight_decay=0.0)

def train(loader, epochs=4):
    model, optimizer = build()
    model.train()
    for _ in range(epochs):
        for image, text in loader:
            logits = model(image, text) / 0.07
            labels = torch.arange(len(logits), device=logits.device)
            loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
