import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SoftRegression(pl.LightningModule):
    def __init__(self, n_features, n_classes, lr=1e-3, l2=0.0):
        super().__init__()
        self.save_hyperparameters()
        self.scores = nn.Linear(n_features, n_classes)

    def forward(self, x):
        x = self.scores(x)
        return x

    def training_step(self, batch, batch_idx):
        x, y = batch
        x = x.view(x.size(0), -1)
        y_hat = self(x)
        loss = F.nll_loss(F.log_softmax(y_hat, dim=1), y, reduction="mean")
        if self.hparams.l2 > 0:
            loss = loss + self.hparams.l2 * self.scores.weight.pow(2).sum()
        self.log("train_ce", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        y_hat = self(x.view(x.size(0), -1))
        acc = (y_hat.argmax(dim=1) == y).float().mean()
        self.log("val_acc", acc)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    data = TensorDataset(torch.randn(256, 1, 6, 6), torch.randint(0, 5, (256,)))
    train = DataLoader(data, batch_size=32, shuffle=True)
    val = DataLoader(data, batch_size=32)
    trainer = pl.Trainer(max_epochs=3)
    trainer.fit(SoftRegression(36, 5), train, val)


if __name__ == "__main__":
    main()
