"""A plain script that clears gradients by hand and tidies up once per epoch."""
import gc

import torch
from torch import nn

torch.manual_seed(40)

model = nn.Sequential(nn.Linear(6, 32), nn.Softplus(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
mse = nn.MSELoss()

x_all = torch.randn(360, 6)
y_all = x_all.abs().sum(dim=1, keepdim=True)

for epoch in range(3):
    order = torch.randperm(360)
    total = 0.0
    for chunk in order.split(30):
        loss = mse(model(x_all[chunk]), y_all[chunk])
        loss.backward()  # verify: missing-zero-grad refuted
        optimizer.step()
        for p in model.parameters():
            p.grad = None
        total += loss.item()
    gc.collect()
    torch.cuda.empty_cache()  # verify: empty-cache-in-loop refuted
    print(f"epoch {epoch} mse {total / 12:.4f}")
