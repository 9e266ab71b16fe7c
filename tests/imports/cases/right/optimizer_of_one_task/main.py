import torch
from engine import train_one_epoch

model = torch.nn.Linear(8, 2)
loaders = [[(torch.randn(4, 8), torch.randint(2, (4,))) for _ in range(4)] for _ in range(3)]
for t in range(len(loaders)):
    train_one_epoch(model, loaders[t], 1e-3)
for epoch in range(3):
    train_one_epoch(model, loaders[0], 1e-3 * 0.5**epoch)
