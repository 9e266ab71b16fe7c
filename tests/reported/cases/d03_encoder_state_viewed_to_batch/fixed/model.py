import torch
from torch import nn
from torch.nn.utils import rnn


class SentenceAutoencoder(nn.Module):
    def __init__(self, vocabulary, width, hidden, latent, layers=1, bidirectional=False):
        super().__init__()
        self.hidden = hidden
        self.states = layers * (2 if bidirectional else 1)
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.encoder = nn.GRU(width, hidden, num_layers=layers, bidirectional=bidirectional, batch_first=True)
        self.decoder = nn.GRU(width, hidden, num_layers=layers, bidirectional=False, batch_first=True)
        self.to_mean = nn.Linear(hidden * self.states, latent)
        self.to_log_variance = nn.Linear(hidden * self.states, latent)
        self.from_latent = nn.Linear(latent, hidden * layers)
        self.layers = layers
        self.out = nn.Linear(hidden, vocabulary)

    def encode(self, tokens, lengths):
        batch = tokens.size(0)
        order = lengths.argsort(descending=True)
        packed = rnn.pack_padded_sequence(self.embedding(tokens[order]), lengths[order].tolist(), batch_first=True)
        _, state = self.encoder(packed)
        if self.states > 1:
            state = state.transpose(0, 1).reshape(batch, self.hidden * self.states)
        else:
            state = state.squeeze(0)
        state = state[order.argsort()]
        return self.to_mean(state), self.to_log_variance(state)

    def forward(self, tokens, lengths):
        mean, log_variance = self.encode(tokens, lengths)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        start = self.from_latent(z).view(tokens.size(0), self.layers, self.hidden).transpose(0, 1).contiguous()
        shifted = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)
        output, _ = self.decoder(self.embedding(shifted), start)
        return self.out(output), mean, log_variance
