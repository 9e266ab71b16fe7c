import torch
import torch.nn as nn


class Core(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.encoder = nn.Linear(12, dim)
        self.decoder = nn.Linear(dim, 12)

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)))


class EarthModel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.model = Core(dim)

    def forward(self, x):
        return self.model(x)


def pretrain(loader, path, dim=64):
    core = Core(dim)
    optimizer = torch.optim.AdamW(core.parameters(), lr=1e-4)
    for x in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(core(x), x)
        loss.backward()
        optimizer.step()
    torch.save(core.state_dict(), path)


def earth_model(path, dim=64):
    model = EarthModel(dim)
    state_dict = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state_dict, strict=False)
    return model
