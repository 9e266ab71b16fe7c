import torch
import torch.nn as nn


class TransformerBinaryClassifier(nn.Module):
    def __init__(self, config, width):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, config["heads"], batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, config["layers"])
        self.classifier = nn.Linear(width, 1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, raw, mask):
        h = self.encoder(raw, src_key_padding_mask=~mask)
        kept = mask.unsqueeze(-1).float()
        mean_output = (h * kept).sum(1) / kept.sum(1)
        logits = self.classifier(mean_output)
        logits = logits.squeeze(-1)
        return logits
