"""The loop over train and val phases known from tutorials, with gradients only in the train phase."""
import copy

import torch
from torch import nn, optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(55)


def dataset(n):
    x = torch.randn(n, 3, 6, 6)
    return TensorDataset(x, (x[:, 0].mean(dim=(1, 2)) > x[:, 1].mean(dim=(1, 2))).long())


loaders = {"train": DataLoader(dataset(192), 16, shuffle=True), "val": DataLoader(dataset(64), 16)}
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.1)
best_acc, best_weights = 0.0, None

for epoch in range(3):
    for phase in ["train", "val"]:
        model.train(phase == "train")
        running_loss, running_corrects = 0.0, 0
        for inputs, labels in loaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):  # verify: training-under-no-grad refuted
                outputs = model(inputs)
                loss = criterion(outputs, labels)
                if phase == "train":
                    loss.backward()  # verify: missing-zero-grad refuted
                    optimizer.step()
            running_loss += loss.item() * len(inputs)
            running_corrects += (outputs.argmax(1) == labels).sum()  # verify: undetached-accumulation refuted
        if phase == "train":
            scheduler.step()
        acc = running_corrects.item() / len(loaders[phase].dataset)
        if phase == "val" and acc > best_acc:
            best_acc, best_weights = acc, copy.deepcopy(model.state_dict())
        print(f"{epoch} {phase:5s} loss {running_loss / len(loaders[phase].dataset):.4f} acc {acc:.3f}")
print("best", best_acc, "with", len(best_weights or {}), "tensors")
