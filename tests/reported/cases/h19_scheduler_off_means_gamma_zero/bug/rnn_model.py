import torch
from torch import nn


class RNN_VAE(nn.Module):
    def __init__(self, features, zdims, hidden):
        super().__init__()
        self.encoder = nn.GRU(features, hidden, batch_first=True, bidirectional=True)
        self.hidden_to_mean = nn.Linear(2 * hidden, zdims)
        self.hidden_to_logvar = nn.Linear(2 * hidden, zdims)
        self.decoder = nn.GRU(zdims, hidden, batch_first=True)
        self.hidden_to_output = nn.Linear(hidden, features)

    def forward(self, seq):
        _, h = self.encoder(seq)
        h = torch.cat([h[0], h[1]], dim=1)
        mu, logvar = self.hidden_to_mean(h), self.hidden_to_logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        out, _ = self.decoder(z[:, None].expand(-1, seq.shape[1], -1))
        return self.hidden_to_output(out), mu, logvar
