import torch


class Trainer:
    def __init__(self, model, loaders):
        self.model = model
        self.loader, self.held_out = loaders
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train_batch(self, batch):
        raise NotImplementedError

    def check_batch(self, batch):
        raise NotImplementedError

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for batch in self.loader:
                self.optimizer.zero_grad()
                self.train_batch(batch).backward()
                self.optimizer.step()
            self.model.eval()
            found = [self.check_batch(batch) for batch in self.held_out]
            total = 0.0
            for batch in self.held_out:
                total += self.check_batch(batch)
            print(f"{epoch} {total / len(self.held_out):.3f} {max(found):.3f}")
