import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (count,), generator=generator)
    images = torch.randn(count, 1, 8, 8, generator=generator)
    images[:, 0, 2:6, 2:6] += labels[:, None, None] * 0.7
    return TensorDataset(images, labels)


datasets = {"train": blobs(244, 1), "val": blobs(153, 2)}
loaders = {phase: DataLoader(datasets[phase], batch_size=16, shuffle=phase == "train") for phase in datasets}
sizes = {phase: len(datasets[phase]) for phase in datasets}


def fit(model, criterion, optimizer, scheduler, epochs):
    best, best_accuracy = copy.deepcopy(model.state_dict()), 0.0
    history = []
    for epoch in range(epochs):
        for phase in ("train", "val"):
            model.train(phase == "train")
            running_loss, running_corrects = 0.0, 0
            for inputs, labels in loaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    predictions = outputs.argmax(1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item()
                running_corrects += (predictions == labels).sum().item()
            if phase == "train":
                scheduler.step()
            epoch_loss = running_loss / sizes[phase]
            epoch_accuracy = running_corrects / sizes[phase]
            history.append((phase, epoch_loss, epoch_accuracy))
            if phase == "val" and epoch_accuracy > best_accuracy:
                best_accuracy, best = epoch_accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return history


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
    history = fit(model, criterion, optimizer, scheduler, epochs=4)
    first, last = history[0], history[-1]
    print(f"first train loss {first[1]:.4f} (log 2 is 0.6931), last val loss {last[1]:.4f}, accuracy {last[2]:.3f}")


if __name__ == "__main__":
    main()
