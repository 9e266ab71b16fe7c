import torch
from engine import train_one_epoch

model = torch.nn.Linear(8, 2)
loader = [(torch.randn(4, 8), torch.randint(2, (4,))) for _ in range(4)]
for epoch in range(3):
    train_one_epoch(model, loader, 1e-3)
