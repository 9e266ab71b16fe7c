import torch


class BaseTrainer:
    def __init__(self, model, batches):
        self.model = model
        self.batches = batches
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def train_epoch(self):
        raise NotImplementedError

    def score(self):
        raise NotImplementedError

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            self.train_epoch()
            with torch.no_grad():
                score = self.score()
            print(f"epoch {epoch}: {score:.4f}")
