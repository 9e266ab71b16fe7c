"""Losses of PyTorch, as modules and as functions; sources: the pages of torch.nn and torch.nn.functional."""

from __future__ import annotations

FUNCTIONS = {
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "KLDivLoss": "kl_div",
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
}
"""The function that does what a module does."""
AVERAGED = frozenset(FUNCTIONS.values()) - {"kl_div"}
"""Those that by default give the mean of what each sample costs."""
REDUCING = frozenset({"reduction", "size_average", "reduce"})
"""The parameters that ask for something else."""
POSITIONAL = {"cross_entropy": 1, "nll_loss": 1, "binary_cross_entropy": 1, "binary_cross_entropy_with_logits": 1}
"""How many arguments a module takes by position before one of those: its weights."""
