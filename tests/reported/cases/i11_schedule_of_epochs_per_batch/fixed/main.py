import torch
import torch.nn as nn
from torch import optim
from torch.utils.data import DataLoader

def build_model():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 1, 1), nn.Sigmoid())

def dice_loss(pred, target):
    inter = (pred * target).sum()
    return 1 - (2 * inter + 1) / (pred.sum() + target.sum() + 1)

def run(settings, train_set, val_set):
    model = build_model().cuda()
    num_epochs = settings["num_epochs"]
    train_loader = DataLoader(train_set, batch_size=settings["batch_size"], shuffle=True)
    val_loader = DataLoader(val_set, batch_size=settings["batch_size"])
    optimizer = optim.Adam(model.parameters(), lr=settings["initial_lr"])
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, num_epochs)
    for epoch in range(1, num_epochs + 1):
        model.train()
        total = 0.0
        for image, mask in train_loader:
            image, mask = image.cuda(), mask.cuda()
            loss = dice_loss(model(image), mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            val = sum(dice_loss(model(i.cuda()), m.cuda()).item() for i, m in val_loader) / len(val_loader)
        print(epoch, total / len(train_loader), val)
