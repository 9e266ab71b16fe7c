import torch
from torch import nn

from stopping import Stopper

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
stopper = Stopper()
for epoch in range(5):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    stopper.update(loss.item(), net)
net.load_state_dict(stopper.weights)

