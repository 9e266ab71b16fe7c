import torch
from torch import nn

from loss_utils import LOSSES


class Captioner(nn.Module):
    loss_type = "ForCausalLM"

    def __init__(self, vocab_size, width=48, patches=4):
        super().__init__()
        self.vocab_size = vocab_size
        self.patches = patches
        self.visual = nn.Linear(8, width)
        self.embedding = nn.Embedding(vocab_size, width)
        self.positions = nn.Parameter(0.02 * torch.randn(32, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.output = nn.Linear(width, vocab_size)

    @property
    def loss_function(self):
        return LOSSES[self.loss_type]

    def forward(self, pixels, input_ids, labels=None):
        hidden = torch.cat([self.visual(pixels), self.embedding(input_ids)], dim=1)
        hidden = hidden + self.positions[: hidden.shape[1]]
        hidden = self.encoder(hidden, mask=nn.Transformer.generate_square_subsequent_mask(hidden.shape[1]))
        logits = self.output(hidden)
        loss = None
        if labels is not None:
            shifted_logits = logits[:, self.patches : -1, :].contiguous()
            shift_labels = labels[:, 1:].contiguous()
            loss = self.loss_function(
                shifted_logits, labels, vocab_size=self.vocab_size, shift_labels=shift_labels
            )
        return loss, logits
