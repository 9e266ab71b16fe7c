import torch
from torch import nn
from trainer import Regression


def main():
    torch.manual_seed(0)
    data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(10)]
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trainer = Regression(model, optimizer)
    for epoch in range(3):
        print(trainer.train_epoch(data))


if __name__ == "__main__":
    main()
