"""Layers that compute something else in training than in evaluation: https://docs.pytorch.org/docs/stable/nn.html"""

from __future__ import annotations

DROPOUT, STATISTICS, NOISE = "dropout", "batch statistics", "random slopes"

MODE_DEPENDENT = {
    **dict.fromkeys("Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout".split(), DROPOUT),
    **dict.fromkeys("Transformer TransformerEncoderLayer TransformerDecoderLayer".split(), DROPOUT),
    **dict.fromkeys("BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm".split(), STATISTICS),
    **dict.fromkeys("LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d".split(), STATISTICS),
    "RReLU": NOISE,
}
"""By the last name of a layer of `torch.nn`, what it does in training only."""
FAMILIES = ("torchvision.models.",)
"""Where models come from that hold dropout or batch normalization, each of them."""
