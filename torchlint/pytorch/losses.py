"""PyTorch's losses, which reduce to a single number unless they are told otherwise: as modules and as functions.

https://docs.pytorch.org/docs/stable/nn.html#loss-functions
"""

from __future__ import annotations

OLD = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CosineEmbeddingLoss": "cosine_embedding_loss",
    "CrossEntropyLoss": "cross_entropy",
    "HingeEmbeddingLoss": "hinge_embedding_loss",
    "KLDivLoss": "kl_div",
    "L1Loss": "l1_loss",
    "MSELoss": "mse_loss",
    "MarginRankingLoss": "margin_ranking_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "MultiMarginLoss": "multi_margin_loss",
    "NLLLoss": "nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "SoftMarginLoss": "soft_margin_loss",
    "TripletMarginLoss": "triplet_margin_loss",
}
"""Those that take `size_average` and `reduce`: the functions by the modules."""

MODULES = frozenset(OLD) | {"CTCLoss", "GaussianNLLLoss", "HuberLoss", "NLLLoss2d", "TripletMarginWithDistanceLoss"}
FUNCTIONS = frozenset(OLD.values()) | {"ctc_loss", "gaussian_nll_loss", "huber_loss"}
