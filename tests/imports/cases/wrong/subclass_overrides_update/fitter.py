import torch


class Fitter:
    def __init__(self, net, lr):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=lr)

    def loss(self):
        x = torch.randn(16, 4)
        return (self.net(x) - x[:, :2]).abs().mean()

    def update(self):
        self.opt.step()
        self.opt.zero_grad()

    def fit(self, n):
        for _ in range(n):
            value = self.loss()
            value.backward()
            self.update()
        return value.item()
