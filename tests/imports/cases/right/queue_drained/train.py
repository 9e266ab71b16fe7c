import torch
from models import Net, batches
from trainer import Trainer


def main():
    model = Net()
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for epoch in range(2):
        trainer.fit(batches())


if __name__ == "__main__":
    main()
