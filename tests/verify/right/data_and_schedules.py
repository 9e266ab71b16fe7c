"""Samplers, loaders, schedules and losses that look like those which PyTorch warns of, and are right."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, ReduceLROnPlateau, SequentialLR, StepLR
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
features = torch.randn(64, 4)
data = TensorDataset(features, features.sum(1, keepdim=True))


def start(width=1):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, width))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def step(model, optimizer, x, y, loss_of=F.mse_loss):
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def epochs(loader, count=3, seen=None):
    model, optimizer = start()
    for _ in range(count):
        for number, (x, y) in enumerate(loader):
            step(model, optimizer, x, y)
            if seen is not None and number == 7:
                seen.generator.manual_seed(0)
                with torch.no_grad():
                    for given, _ in seen:
                        model(given)


class Same(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.ones(4), torch.ones(1)


def loaders():
    epochs(DataLoader(data, 8, sampler=WeightedRandomSampler(torch.ones(64), 32)))
    epochs(DataLoader(data, 8, shuffle=True), seen=DataLoader(data, 8, shuffle=True, generator=torch.Generator()))
    for fold in range(2):
        epochs(DataLoader(Subset(data, range(fold * 16, fold * 16 + 16)), 8, shuffle=True))
    epochs(DataLoader(data, 8, shuffle=True, num_workers=2, persistent_workers=True), 2)
    epochs(DataLoader(Same(), 4, num_workers=2), 1)


def schedules():
    makers = (
        lambda optimizer: StepLR(optimizer, 10),
        lambda optimizer: SequentialLR(optimizer, [LinearLR(optimizer), CosineAnnealingLR(optimizer, 9)], [3]),
    )
    for make in makers:
        model, optimizer = start()
        schedule = make(optimizer)
        for x, y in DataLoader(data, 8):
            step(model, optimizer, x, y)
            schedule.step()
    model, optimizer = start()
    plateau = ReduceLROnPlateau(optimizer)
    for x, y in DataLoader(data, 8):
        plateau.step(step(model, optimizer, x, y))


def annealed():
    """A term that weighs nothing at first."""
    model, optimizer = start()
    other = nn.Linear(4, 1)
    optimizer.add_param_group({"params": list(other.parameters())})
    for number in range(24):
        x = features[:8]
        weight = max(0.0, number - 12) / 10
        optimizer.zero_grad()
        (model(x).pow(2).mean() + weight * other(x).pow(2).mean()).backward()
        optimizer.step()


def divergences():
    (student, optimizer), (teacher, _) = start(3), start(3)
    divergence = nn.KLDivLoss(reduction="batchmean", log_target=True)
    for x, _ in DataLoader(data, 8):
        with torch.no_grad():
            wanted = F.log_softmax(teacher(x), 1)
        step(student, optimizer, x, wanted, lambda given, y: divergence(F.log_softmax(given, 1), y))


def quantiles():
    """Each quantile is compared with each, on purpose."""
    (model, optimizer), (target, _) = start(5), start(5)
    for x, _ in DataLoader(data, 8):
        with torch.no_grad():
            wanted = target(x).unsqueeze(2)
        step(model, optimizer, x, wanted, lambda given, y: F.huber_loss(given.unsqueeze(1), y))


loaders()
schedules()
annealed()
divergences()
quantiles()
