"""Small models with schedules of many kinds, stepped by wrappers, by epochs, by nobody, or too early."""
import torch
from torch import nn
from torch.optim import lr_scheduler

torch.set_num_threads(1)
torch.manual_seed(8)


def prepare(rate=0.1):
    model = nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), lr=rate)


def train(model, optimizer):
    loss = (model(torch.randn(8, 3)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Warmup:
    """Steps the schedule that it holds."""

    def __init__(self, schedule):
        self.schedule = schedule

    def step(self):
        self.schedule.step()


class Runner:
    def __init__(self):
        self.model, self.optimizer = prepare()
        schedule = lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=50)  # verify: scheduler-never-stepped refuted
        self.schedule = Warmup(schedule)

    def run(self):
        train(self.model, self.optimizer)
        self.schedule.step()  # verify: scheduler-before-optimizer refuted


def restored():
    """From a checkpoint of another run, and then left alone."""
    model, optimizer = prepare()
    schedule = lr_scheduler.StepLR(optimizer, 2)  # verify: scheduler-never-stepped confirmed, unseen by the linter
    state = schedule.state_dict()
    state["last_epoch"] += 1
    schedule.load_state_dict(state)
    return model, optimizer, schedule


def local():
    """The schedule is gone when its function returns."""
    model, optimizer = prepare()
    decay = lr_scheduler.ExponentialLR(optimizer, 0.9)  # verify: scheduler-never-stepped confirmed
    print(decay.get_last_lr())
    return model, optimizer


runner = Runner()
lost = local()
kept = restored()
plateau_model, plateau_optimizer = prepare()
plateau = lr_scheduler.ReduceLROnPlateau(plateau_optimizer)  # verify: scheduler-never-stepped refuted
chained_model, chained_optimizer = prepare()
first = lr_scheduler.LinearLR(chained_optimizer)
chained = lr_scheduler.SequentialLR(chained_optimizer, [first, lr_scheduler.StepLR(chained_optimizer, 3)], [2])
early_model, early_optimizer = prepare()
early = lr_scheduler.CosineAnnealingLR(early_optimizer, 10)
between_model, between_optimizer = prepare()
between = lr_scheduler.StepLR(between_optimizer, 30)

for epoch in range(5):
    early.step()  # verify: scheduler-before-optimizer confirmed
    runner.run()
    train(*lost)
    train(*kept[:2])
    train(plateau_model, plateau_optimizer)
    plateau.step(1.0)
    train(chained_model, chained_optimizer)
    chained.step()  # verify: scheduler-before-optimizer refuted
    train(early_model, early_optimizer)
    between_optimizer.zero_grad()
    between_model(torch.randn(4, 3)).sum().backward()
    between.step()  # verify: scheduler-before-optimizer confirmed
    between_optimizer.step()
print(runner.optimizer.param_groups[0]["lr"], early.get_last_lr(), kept[2].last_epoch)
