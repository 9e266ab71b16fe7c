import torch
from torch import nn
from stepper import train_step

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
epoch_loss = 0
for i in range(70):
    epoch_loss += train_step(net, opt, torch.randn(16, 2))
print("mean loss %.4f" % (float(epoch_loss) / 70))
