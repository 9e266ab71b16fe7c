import torch
from risk import risk_loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 6), torch.rand(96), torch.ones(96))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Linear(6, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    total = 0.0
    for x, time, seen in loader:
        loss = risk_loss(time, seen, model(x))
        total += loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total /= len(loader.dataset)
    print(f"epoch {epoch} loss {total:.4f}")
