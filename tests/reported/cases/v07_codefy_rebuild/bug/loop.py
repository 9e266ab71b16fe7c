import torch
from checkpoint import load_checkpoint


class TrainingLoop:
    def __init__(self, epochs, lr):
        self.epochs = epochs
        self.lr = lr

    def execute(self, model, loader, loss_fn, optimizer):
        optimizer = type(optimizer)(model.parameters(), lr=self.lr)
        model.train()
        for epoch in range(self.epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
        return model


def main(model, loader, path):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    load_checkpoint(path, model, optimizer)
    loop = TrainingLoop(10, 1e-3)
    loop.execute(model, loader, torch.nn.CrossEntropyLoss(), optimizer)
