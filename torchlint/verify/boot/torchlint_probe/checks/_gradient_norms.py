"""Norms of the gradients that steps use, of all parameters at once: what checks of their sizes share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check
from torchlint_probe.values import dense


class Gradients:
    """Those that a step is about to use: worked out once for all checks that ask for them."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @cached_property
    def leaves(self) -> list[torch.Tensor]:
        """The parameters that have one."""
        return [leaf for leaf in leaves_of(self.optimizer) if leaf.grad is not None]

    @cached_property
    def norms(self) -> list[float]:
        """The norm of each; none where they have different types or devices."""
        gradients = [dense(leaf.grad).detach() for leaf in self.leaves]
        if len({(item.device, item.dtype) for item in gradients}) != 1:
            return []
        norms: list[float] = torch.stack(torch._foreach_norm(gradients)).tolist()
        return norms


class GradientNorms(Check):
    """Reads the norms at each step on a CPU, and on a GPU at those at which more is measured anyway."""

    def before_step(self, optimizer: Any) -> None:
        if self.probe.meter.device != "cpu" and not self.probe.is_measured:
            return
        gradients = self.probe.checks.gradients_of(optimizer)
        if gradients.norms:
            self.measured(optimizer, gradients.leaves, gradients.norms)

    def measured(self, optimizer: Any, leaves: list[torch.Tensor], norms: list[float]) -> None:
        """A step is about to use gradients of these norms."""
