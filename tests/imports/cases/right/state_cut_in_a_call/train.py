import torch
from models import RNN, batches
from trainer import Trainer


def main():
    model = RNN()
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for epoch in range(2):
        trainer.fit(batches())


if __name__ == "__main__":
    main()
