import torch
from models import Net
from trainer import Trainer
from loading import get_loader

net = Net()
Trainer(net, torch.optim.Adam(net.parameters())).fit(get_loader(), 2)
