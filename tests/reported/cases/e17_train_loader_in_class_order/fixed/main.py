import torch
from torch import nn

from dataloaders import imagenet_train, imagenet_val

train_params = {
    "max_epochs": 4,
    "initial_lr": 0.1,
    "optimizer": "SGD",
    "optimizer_params": {"weight_decay": 1e-4, "momentum": 0.9, "nesterov": True},
}


class Trainer:
    def __init__(self, experiment_name):
        self.experiment_name = experiment_name

    def train(self, model, training_params, train_loader, valid_loader):
        optimizer = getattr(torch.optim, training_params["optimizer"])(
            model.parameters(), lr=training_params["initial_lr"], **training_params["optimizer_params"])
        criterion = nn.CrossEntropyLoss()
        for epoch in range(training_params["max_epochs"]):
            model.train()
            classes = []
            for inputs, targets in train_loader:
                loss = criterion(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                classes.append(len(targets.unique()))
            print(f"[{self.experiment_name}] epoch {epoch} classes per batch {sum(classes) / len(classes):.1f} "
                  f"valid accuracy {self.validate(model, valid_loader):.3f}")

    @torch.no_grad()
    def validate(self, model, loader):
        model.eval()
        correct = sum((model(inputs).argmax(1) == targets).sum().item() for inputs, targets in loader)
        return correct / len(loader.dataset)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6))
    Trainer("imagenet").train(net, train_params, imagenet_train(dataloader_params={"batch_size": 48}), imagenet_val())
