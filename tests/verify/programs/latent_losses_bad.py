"""Autoencoders that draw their sample without gradients: the reconstruction does not reach the encoder."""
import torch
from torch import nn

torch.manual_seed(4)


class Sampled(nn.Module):
    """The sample is drawn without gradients: only the divergence trains the encoder."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(7, 4), nn.Linear(2, 7)

    def forward(self, x):
        mean, log_scale = self.encoder(x).chunk(2, dim=1)
        with torch.no_grad():  # verify: training-under-no-grad confirmed, unseen by the linter
            latent = mean + log_scale.exp() * torch.randn_like(mean)
        return self.decoder(latent), (mean.pow(2) + log_scale.pow(2)).mean()


class Drawn(Sampled):
    """The same in a decorated function."""

    @torch.no_grad()
    def draw(self, mean, log_scale):
        return mean + log_scale.exp() * torch.randn_like(mean)

    def forward(self, x):
        mean, log_scale = self.encoder(x).chunk(2, dim=1)
        return self.decoder(self.draw(mean, log_scale)), (mean.pow(2) + log_scale.pow(2)).mean()


def fit_sampled(model, opt, x):
    reconstruction, divergence = model(x)
    loss = (reconstruction - x).pow(2).mean() + divergence
    opt.zero_grad()
    loss.backward()  # verify: training-under-no-grad confirmed, unseen by the linter
    opt.step()


def fit_drawn(model, opt, x):
    reconstruction, divergence = model(x)
    loss = (reconstruction - x).pow(2).mean() + divergence
    opt.zero_grad()
    loss.backward()  # verify: training-under-no-grad confirmed, unseen by the linter
    opt.step()


def fit_with_target(model, opt, x):
    out = model(x)
    with torch.no_grad():
        weight = out.abs().mean(dim=1, keepdim=True)
    loss = ((out - 1).pow(2) * weight).mean()
    opt.zero_grad()
    loss.backward()  # verify: training-under-no-grad refuted
    opt.step()


for model, fit in ((Sampled(), fit_sampled), (Drawn(), fit_drawn), (nn.Linear(7, 2), fit_with_target)):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(8):
        fit(model, optimizer, torch.randn(9, 7))
