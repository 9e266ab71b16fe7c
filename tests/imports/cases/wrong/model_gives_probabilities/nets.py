from torch import nn


class Net(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, n_out), nn.Softmax(dim=-1))

    def forward(self, x):
        return self.layers(x)
