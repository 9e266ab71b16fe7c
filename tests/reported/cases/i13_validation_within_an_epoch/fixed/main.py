import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from trainer import Trainer

def main(train_set, val_set):
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Dropout2d(), nn.Conv2d(64, 21, 1)).cuda()
    optimizer = torch.optimizer.SGD(model.parameters(), lr=1e-4, momentum=0.99)
    loader = DataLoader(train_set, batch_size=1, shuffle=True)
    trainer = Trainer(model, optimizer, loader, DataLoader(val_set, batch_size=1), 100000, 4000)
    trainer.train()
