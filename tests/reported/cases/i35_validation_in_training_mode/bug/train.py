import torch
import torch.nn as nn
from trainer import VolumeTrainer
def main(train_loader, val_loader):
    model = nn.Sequential(nn.Conv3d(1, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(), nn.Dropout3d(0.2), nn.Conv3d(32, 2, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10)
    trainer = VolumeTrainer(model, optimizer, scheduler, nn.CrossEntropyLoss(), {"train": train_loader, "val": val_loader}, torch.device("cuda"))
    trainer.run()
