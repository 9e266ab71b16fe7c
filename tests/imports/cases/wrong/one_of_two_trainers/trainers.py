import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, net, lr=0.01):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)

    def fit(self, batches):
        for x, y in batches:
            self.update(x, y)


class Squares(Trainer):
    def update(self, x, y):
        F.mse_loss(self.net(x), y).backward()
        self.optimizer.step()


class Amounts(Trainer):
    def update(self, x, y):
        self.optimizer.zero_grad()
        F.l1_loss(self.net(x), y).backward()
        self.optimizer.step()
