import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, folder, model, optimizer, lr_scheduler, loss_fn, dataset, max_epoch):
        self.folder = folder
        self.model = model
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.loss_fn = loss_fn
        self.loader = DataLoader(dataset, batch_size=16, shuffle=True)
        self.max_epoch = max_epoch
        self.starting_epoch = 1

    def save_model(self, epoch, loss, path):
        torch.save(
            {
                "epoch": epoch,
                "model_state_dict": self.model.state_dict(),
                "optimizer_state_dict": self.optimizer.state_dict(),
                "loss": loss,
            },
            path,
        )

    def load_checkpoint(self, path):
        checkpoint = torch.load(path)
        self.model.load_state_dict(checkpoint["model_state_dict"])
        self.optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        self.starting_epoch = checkpoint["epoch"] + 1

    def train_one_epoch(self):
        total = 0.0
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.loss_fn(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.lr_scheduler.step()
        return total / len(self.loader)

    def train(self):
        for epoch in range(self.starting_epoch, self.max_epoch + 1):
            loss = self.train_one_epoch()
            self.save_model(epoch, loss, f"{self.folder}/recent.pt")


def main(model, dataset, folder, resume=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 5)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 95)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], [5])
    trainer = Trainer(folder, model, optimizer, scheduler, torch.nn.MSELoss(), dataset, 100)
    if resume:
        trainer.load_checkpoint(resume)
    trainer.train()
