import torch
import torch.nn.functional as F
from torch import nn

from tables import make_loader


class Backbone(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, d_hidden), nn.ReLU(), nn.Linear(d_hidden, d_hidden), nn.ReLU())
        self.head = nn.Linear(d_hidden, d_out)
        self.d_out = d_out

    def forward(self, x):
        out = self.head(self.body(x))
        if self.d_out == 1:
            out = out.squeeze(-1)
        return out


class DeepMethod:
    def __init__(self, config):
        self.config = config
        self.model = None
        self.criterion = None

    def fit(self, table):
        self.criterion = F.mse_loss if table.is_regression else F.cross_entropy
        self.model = Backbone(table.features.shape[1], self.config["hidden"], table.dim_out)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.config["lr"])
        loader = make_loader(table, self.config["batch_size"], shuffle=True)
        for epoch in range(self.config["epochs"]):
            self.train_epoch(loader)
        return self

    def train_epoch(self, loader):
        self.model.train()
        for x, y in loader:
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def predict(self, features):
        self.model.eval()
        return self.model(features)
