import torch
from torch import nn


class Accumulator:
    """For accumulating sums over n variables."""
    def __init__(self, n):
        self.data = [0.0] * n

    def add(self, *args):
        self.data = [a + float(b) for a, b in zip(self.data, args)]

    def __getitem__(self, idx):
        return self.data[idx]


def sequence_mask(X, valid_len, value=0):
    """Mask irrelevant entries in sequences."""
    maxlen = X.size(1)
    mask = torch.arange(maxlen, dtype=torch.float32, device=X.device)[None, :] < valid_len[:, None]
    X[~mask] = value
    return X


class MaskedSoftmaxCELoss(nn.CrossEntropyLoss):
    """The softmax cross-entropy loss with masks."""
    # pred shape: (batch_size, num_steps, vocab_size), label shape: (batch_size, num_steps)
    def forward(self, pred, label, valid_len):
        weights = torch.ones_like(label)
        weights = sequence_mask(weights, valid_len)
        self.reduction = 'none'
        unweighted_loss = super().forward(pred.permute(0, 2, 1), label)
        weighted_loss = (unweighted_loss * weights).mean(dim=1)
        return weighted_loss


class EncoderDecoder(nn.Module):
    def __init__(self, vocab_size, embed_size, num_hiddens):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.encoder = nn.GRU(embed_size, num_hiddens, batch_first=True)
        self.decoder = nn.GRU(embed_size, num_hiddens, batch_first=True)
        self.dense = nn.Linear(num_hiddens, vocab_size)

    def forward(self, enc_X, dec_X, enc_valid_lens):
        output, _ = self.encoder(self.embedding(enc_X))
        last = (enc_valid_lens - 1).view(-1, 1, 1).expand(-1, 1, output.size(2))
        state = output.gather(1, last).permute(1, 0, 2).contiguous()
        return self.dense(self.decoder(self.embedding(dec_X), state)[0])


def grad_clipping(net, theta):
    params = [p for p in net.parameters() if p.requires_grad]
    norm = torch.sqrt(sum(torch.sum((p.grad ** 2)) for p in params))
    if norm > theta:
        for param in params:
            param.grad[:] *= theta / norm
