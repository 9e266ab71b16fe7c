from torch import nn


class ModelWithLoss(nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch):
        outputs = self.model(batch["input"])
        loss, loss_stats = self.loss(outputs, batch)
        return outputs, loss, loss_stats


class BaseTrainer:
    def __init__(self, opt, model, optimizer=None):
        self.opt = opt
        self.optimizer = optimizer
        self.loss_stats, self.loss = self._get_losses(opt)
        self.model_with_loss = ModelWithLoss(model, self.loss)

    def run_epoch(self, phase, epoch, data_loader):
        model_with_loss = self.model_with_loss
        if phase == "train":
            model_with_loss.train()
        else:
            model_with_loss.eval()
        avg = {name: 0.0 for name in self.loss_stats}
        for batch in data_loader:
            output, loss, loss_stats = model_with_loss(batch)
            if phase == "train":
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            for name in avg:
                avg[name] += loss_stats[name].item() / len(data_loader)
        return avg

    def train(self, epoch, data_loader):
        return self.run_epoch("train", epoch, data_loader)

    def _get_losses(self, opt):
        raise NotImplementedError
