import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trainer import StandardTrainer


def main():
    torch.manual_seed(0)
    x = torch.randn(600, 8)
    y = (x[:, :1] + 0.3 * torch.randn(600, 1) > 1.2).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    trainer = StandardTrainer(weighted_loss=True)
    trainer.prepare(model, "binary", y)
    for epoch in range(6):
        print(f"epoch {epoch} loss {trainer.train_epoch(loader):.4f}")
    with torch.no_grad():
        positive = model(x) > 0
    print(f"recall {positive[y == 1].float().mean():.3f} specificity {(~positive[y == 0]).float().mean():.3f}")


if __name__ == "__main__":
    main()
