import torch
from torch import nn

from implementations import get_loss_weight_strategy


class StandardTrainer:
    def __init__(self, weighted_loss=False):
        self.weighted_loss = weighted_loss

    def prepare(self, model, output_type, train_labels, lr=1e-2):
        criterion_class = nn.BCEWithLogitsLoss if output_type == "binary" else nn.CrossEntropyLoss
        kwargs = {}
        if self.weighted_loss:
            weights = torch.as_tensor(get_loss_weight_strategy(output_type)(train_labels), dtype=torch.float32)
            kwargs["pos_weight" if output_type == "binary" else "weight"] = weights
        self.model = model
        self.criterion = criterion_class(**kwargs)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train_step(self, data, targets):
        self.model.train()
        self.optimizer.zero_grad()
        outputs = self.model(data)
        loss = self.criterion(outputs, targets.float())
        loss.backward()
        self.optimizer.step()
        return loss.item(), outputs.detach()

    def train_epoch(self, loader):
        loss_sum, count = 0.0, 0
        for data, targets in loader:
            loss, _ = self.train_step(data, targets)
            loss_sum += loss * data.size(0)
            count += data.size(0)
        return loss_sum / count
