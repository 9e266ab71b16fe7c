import torch
from torch import nn

from common import kl_gaussian, reconstruction, reparametrize_gaussian


class VAE(nn.Module):
    def __init__(self, hidden=64, latent=10):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, hidden), nn.ReLU())
        self.fc_mu, self.fc_logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 784))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.fc_mu(h), self.fc_logvar(h)
        z = reparametrize_gaussian(mu, logvar)
        return self.decoder(z), mu, logvar


def elbo(x, logits, mu, logvar):
    return (reconstruction(x, logits) + kl_gaussian(mu, logvar)).mean()


def main():
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(20):
        x = torch.rand(32, 784).round()
        optimizer.zero_grad()
        loss = elbo(x, *model(x))
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
