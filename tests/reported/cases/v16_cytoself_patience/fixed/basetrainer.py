from copy import deepcopy

import torch


class BaseTrainer:
    def __init__(self, model, lr, max_epochs, patience_lr, patience_stop):
        self.model = model
        self.best_model = None
        self.lr = lr
        self.max_epochs = max_epochs
        self.patience_lr = patience_lr
        self.patience_stop = patience_stop
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.loss_fn = torch.nn.MSELoss()

    def train_one_epoch(self, loader):
        self.model.train()
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = self.loss_fn(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def val_loss(self, loader):
        self.model.eval()
        total = 0.0
        for x, y in loader:
            total += self.loss_fn(self.model(x), y).item()
        return total / len(loader)

    def fit(self, train_loader, val_loader):
        best_vloss = 1e9
        count_lr_no_improve = 0
        count_early_stop = 0
        for current_epoch in range(self.max_epochs):
            self.train_one_epoch(train_loader)
            _vloss = self.val_loss(val_loader)
            if _vloss < best_vloss:
                best_vloss = _vloss
                self.best_model = deepcopy(self.model)
                count_lr_no_improve = 0
                count_early_stop = 0
            else:
                count_lr_no_improve += 1
                count_early_stop += 1
            if count_lr_no_improve >= self.patience_lr:
                self.lr = self.lr * 0.1
                for group in self.optimizer.param_groups:
                    group["lr"] = self.lr
                count_lr_no_improve = 0
            if count_early_stop >= self.patience_stop:
                print("stopped early at", current_epoch)
                break
