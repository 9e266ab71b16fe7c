"""Losses of PyTorch, as modules and as functions, which reduce to a single number by default.

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
"""Losses with the parameters `size_average` and `reduce`."""
FUNCTIONS = {
    "NLLLoss2d": "nll_loss",
    **OLD,
    "CTCLoss": "ctc_loss",
    "GaussianNLLLoss": "gaussian_nll_loss",
    "HuberLoss": "huber_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
}
"""The function that computes the same as a module."""
OPERATORS = frozenset(FUNCTIONS.values())
"""The loss functions, as operators that create tensors."""
AVERAGED = frozenset(
    "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss "
    "huber_loss".split()
)
"""Losses whose default is the mean over samples."""
OVERRIDING = ("size_average", "reduce")
"""Deprecated parameters that override `reduction`, unless they are None."""
REDUCING = frozenset({"reduction", *OVERRIDING})
"""The parameters that select another reduction."""
POSITIONAL = {"cross_entropy": 1, "nll_loss": 1, "binary_cross_entropy": 1, "binary_cross_entropy_with_logits": 1}
"""The number of positional arguments of a module before one of those: its weights."""
