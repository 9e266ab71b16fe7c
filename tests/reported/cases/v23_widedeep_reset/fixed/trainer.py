import torch
from metrics import Accuracy


class Trainer:
    def __init__(self, model, loss_fn, optimizer):
        self.model = model
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.metric = Accuracy()

    def _train_step(self, x, y):
        self.model.train()
        self.optimizer.zero_grad()
        y_pred = self.model(x)
        loss = self.loss_fn(y_pred, y)
        loss.backward()
        self.optimizer.step()
        return loss.item(), self.metric(y_pred, y)

    def _eval_step(self, x, y):
        self.model.eval()
        with torch.no_grad():
            y_pred = self.model(x)
            loss = self.loss_fn(y_pred, y)
        return loss.item(), self.metric(y_pred, y)

    def fit(self, train_loader, eval_loader, n_epochs):
        for epoch in range(n_epochs):
            self.metric.reset()
            train_loss = 0.0
            for x, y in train_loader:
                loss, train_score = self._train_step(x, y)
                train_loss += loss
            self.metric.reset()
            val_loss = 0.0
            for x, y in eval_loader:
                loss, val_score = self._eval_step(x, y)
                val_loss += loss
            print(epoch, train_loss / len(train_loader), train_score)
            print(epoch, val_loss / len(eval_loader), val_score)


def main(model, train_loader, eval_loader):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    trainer = Trainer(model, torch.nn.CrossEntropyLoss(), optimizer)
    trainer.fit(train_loader, eval_loader, 10)
