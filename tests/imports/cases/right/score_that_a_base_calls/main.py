import torch
from regression import Regression
from torch import nn

torch.manual_seed(0)
batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(20, 16, 4)]
Regression(nn.Linear(4, 1), batches).fit(3)
