from itertools import chain

import torch
import torch.nn.functional as F
from torch import nn


class AttributeVAE(nn.Module):
    def __init__(self, dim=20, hidden=24, z_dim=6, c_dim=2):
        super().__init__()
        self.encoder = nn.Linear(dim, hidden)
        self.q_mu = nn.Linear(hidden, z_dim)
        self.q_logvar = nn.Linear(hidden, z_dim)
        self.decoder = nn.Linear(z_dim + c_dim, hidden)
        self.decoder_fc = nn.Linear(hidden, dim)
        self.disc = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, c_dim))
        self.enc_weights = list(chain(self.encoder.parameters(), self.q_mu.parameters(), self.q_logvar.parameters()))
        self.dec_weights = list(chain(self.decoder.parameters(), self.decoder_fc.parameters()))
        self.disc_weights = list(self.disc.parameters())

    def encode(self, x):
        h = torch.relu(self.encoder(x))
        return self.q_mu(h), self.q_logvar(h)

    def decode(self, z, c):
        return self.decoder_fc(torch.relu(self.decoder(torch.cat([z, c], 1))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        recon = F.mse_loss(self.decode(z, self.disc(x).detach().softmax(1)), x)
        kl = 0.5 * (logvar.exp() + mu ** 2 - 1 - logvar).sum(1).mean()
        return recon, kl

    def generate(self, n):
        c = F.one_hot(torch.randint(2, (n,)), 2).float()
        z = torch.randn(n, self.q_mu.out_features)
        return self.decode(z, c), z, c
