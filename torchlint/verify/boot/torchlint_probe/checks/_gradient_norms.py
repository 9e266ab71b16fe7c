"""Norms of the gradients that steps use, of all parameters at once: what checks of their sizes share."""

from __future__ import annotations

from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check
from torchlint_probe.values import dense


class GradientNorms(Check):
    """Reads the norms at each step on a CPU, and on a GPU at those at which more is measured anyway."""

    def before_step(self, optimizer: Any) -> None:
        if self.probe.meter.device != "cpu" and not self.probe.is_measured:
            return
        leaves = [leaf for leaf in leaves_of(optimizer) if leaf.grad is not None]
        gradients = [dense(leaf.grad).detach() for leaf in leaves]
        if gradients and len({(item.device, item.dtype) for item in gradients}) == 1:
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(gradients)]).tolist()
            self.measured(optimizer, leaves, norms)

    def measured(self, optimizer: Any, leaves: list[torch.Tensor], norms: list[float]) -> None:
        """A step is about to use gradients of these norms."""
