import torch
from losses import DiceLoss, IoU
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Epoch:
    def __init__(self, model, loss, metrics, stage_name):
        self.model, self.loss, self.metrics, self.stage_name = model, loss, metrics, stage_name

    def run(self, dataloader):
        self.on_epoch_start()
        logs, n = {}, len(dataloader)
        for x, y in dataloader:
            loss, y_pred = self.batch_update(x, y)
            logs[self.loss.__name__] = logs.get(self.loss.__name__, 0.0) + loss.item() / n
            for metric in self.metrics:
                logs[metric.__name__] = logs.get(metric.__name__, 0.0) + metric(y_pred.detach(), y).item() / n
        print(self.stage_name, {k: round(v, 4) for k, v in logs.items()})
        return logs


class TrainEpoch(Epoch):
    def __init__(self, model, loss, metrics, optimizer):
        super().__init__(model, loss, metrics, "train")
        self.optimizer = optimizer

    def on_epoch_start(self):
        self.model.train()

    def batch_update(self, x, y):
        self.optimizer.zero_grad()
        prediction = self.model.forward(x)
        loss = self.loss(prediction, y)
        loss.backward()
        self.optimizer.step()
        return loss, prediction


class ValidEpoch(Epoch):
    def __init__(self, model, loss, metrics):
        super().__init__(model, loss, metrics, "valid")

    def on_epoch_start(self):
        self.model.eval()

    def batch_update(self, x, y):
        with torch.no_grad():
            prediction = self.model.forward(x)
            return self.loss(prediction, y), prediction


class Segmenter(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1), nn.Sigmoid())


def dataset(n):
    images = torch.rand(n, 3, 16, 16)
    return TensorDataset(images, (images.mean(1, keepdim=True) > 0.55).float())


def main(epochs=6):
    torch.manual_seed(0)
    train_loader = DataLoader(dataset(64), batch_size=8, shuffle=True)
    valid_loader = DataLoader(dataset(16), batch_size=1)
    model = Segmenter()
    loss = DiceLoss()
    optimizer = torch.optim.Adam([dict(params=model.parameters(), lr=0.01)])
    train_epoch = TrainEpoch(model, loss, [IoU(threshold=0.5)], optimizer)
    valid_epoch = ValidEpoch(model, loss, [IoU(threshold=0.5)])
    for i in range(epochs):
        train_epoch.run(train_loader)
        valid_logs = valid_epoch.run(valid_loader)
    return model, valid_logs


if __name__ == "__main__":
    main()
