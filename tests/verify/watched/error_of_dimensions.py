"""Images without a batch dimension."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
data = torch.randn(10, 3, 8, 8)
for image in data:
    out = net(image)  # seen: program-error (is the batch dimension missing?)
    out.mean().backward()
