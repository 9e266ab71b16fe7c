import torch
from torch import nn

from metrics import ArcMarginProduct


def main():
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 32))
    metric_fc = ArcMarginProduct(32, 10)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD([{"params": backbone.parameters()}, {"params": metric_fc.parameters()}], lr=0.1)
    for _ in range(50):
        faces, label = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
        feature = backbone(faces)
        loss = criterion(metric_fc(feature, label), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
