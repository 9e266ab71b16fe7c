import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, train_set, eval_set, patience=3, epochs=20):
        self.model = model
        self.train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
        self.eval_loader = DataLoader(eval_set, batch_size=8)
        self.patience = patience
        self.epochs = epochs
        self.best_metric = float("inf")
        self.patience_counter = 0
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def _save(self, name):
        torch.save(self.model.state_dict(), name)

    def _evaluate(self):
        self.model.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in self.eval_loader:
                total += torch.nn.functional.cross_entropy(self.model(x), y).item()
        metric_value = total / len(self.eval_loader)
        if metric_value < self.best_metric:
            self.best_metric = metric_value
            self._save("best.pt")
        self.model.train()
        return metric_value

    def _check_early_stopping(self, metric_value, prev_best):
        if metric_value < prev_best:
            self.patience_counter = 0
        else:
            self.patience_counter += 1
        return self.patience_counter >= self.patience

    def train(self):
        self.model.train()
        for epoch in range(self.epochs):
            for x, y in self.train_loader:
                self.optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
            prev_best = self.best_metric
            metric_value = self._evaluate()
            if self._check_early_stopping(metric_value, prev_best):
                break
