class BaseTrainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def before_batch(self, batch):
        self.optimizer.zero_grad()

    def compute_loss(self, batch):
        raise NotImplementedError

    def train_epoch(self, loader):
        total = 0.0
        for batch in loader:
            self.before_batch(batch)
            loss = self.compute_loss(batch)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)
