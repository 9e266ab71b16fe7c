from torch import nn


class Classifier(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, n_out))

    def forward(self, x):
        z = self.body(x)
        if self.training:
            return z
        return z.softmax(dim=1)
