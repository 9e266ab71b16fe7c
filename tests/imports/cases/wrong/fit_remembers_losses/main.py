import torch
from fitting import Fitting
from notes import Notes
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
notes = Notes()
fitting = Fitting(net, torch.optim.SGD(net.parameters(), lr=0.1), watchers=[notes])
fitting.run(torch.randn(60, 16, 4))
print(notes.mean())
