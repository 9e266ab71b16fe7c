"""Weights that are loaded in vain: no copies, nobody's, initialized over; and two networks that are one."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def train(model, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


class Trainer:
    def __init__(self, model):
        self.model = model
        self.best = {}

    def remember(self, epoch):
        self.best = {"epoch": epoch, "weights": self.model.state_dict()}  # seen: uncopied-state-dict (4 steps)

    def fit(self):
        for epoch in range(3):
            train(self.model)
            if epoch == 0:
                self.remember(epoch)
        self.model.load_state_dict(self.best["weights"])


def keep_in_a_new_dict(model):
    best = dict(model.state_dict())  # seen: uncopied-state-dict (2 steps)
    cloned = {name: value.clone() for name, value in model.state_dict().items()}
    train(model)
    model.load_state_dict(best)
    model.load_state_dict(cloned)


class Agent:
    def __init__(self, policy):
        self.policy = policy
        self.target = policy.to("cpu")  # seen: aliased-network (`self.target`)
        self.lagging = copy.deepcopy(policy)

    def learn(self):
        for _ in range(3):
            train(self.policy)
            self.target.load_state_dict(self.policy.state_dict())
            self.lagging.load_state_dict(self.policy.state_dict())


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = net()

    def forward(self, x):
        return self.model(x)


def restored(state):
    model = net()
    model.load_state_dict(state, strict=False)  # seen: load-without-effect (`model.0.weight`)
    return model


class Again(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.body = net()
        self.body.load_state_dict(state)
        self.head = nn.Linear(1, 1)
        self.apply(self.start)

    @staticmethod
    def start(part):
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)  # seen: initialized-after-loading (2 of 2)
            nn.init.zeros_(part.bias)

    def forward(self, x):
        return self.head(self.body(x))


Trainer(net()).fit()
keep_in_a_new_dict(net())
Agent(net()).learn()
train(restored(Wrapped().state_dict()))
train(Again(net().state_dict()))
