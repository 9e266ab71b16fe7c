import torch
from torch import nn
from loop import Loop


class CurveFit(Loop):
    def __init__(self):
        net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        super().__init__(net, torch.optim.Adam(net.parameters(), lr=0.02))

    def step(self, x):
        loss = (self.net(x) - x.sin()).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    fit = CurveFit()
    print("last loss %.4f" % fit.run(torch.randn(60, 32, 1)))
