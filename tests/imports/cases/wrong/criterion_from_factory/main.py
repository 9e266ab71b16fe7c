import torch
from torch import nn
from trainer import Trainer


def main():
    torch.manual_seed(0)
    data = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(20)]
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    print(Trainer(model).fit(data))


if __name__ == "__main__":
    main()
