"""Norms of the gradients that a step uses, for all parameters. Checks of gradient sizes share them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check
from torchlint_probe.values import dense


class Gradients:
    """The gradients that a step is about to use. They are computed once for all checks."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @cached_property
    def leaves(self) -> list[torch.Tensor]:
        """The parameters that have a gradient."""
        return [leaf for leaf in leaves_of(self.optimizer) if leaf.grad is not None]

    @cached_property
    def norms(self) -> list[float]:
        """The norm of each gradient; none if they have different types or devices."""
        gradients = [dense(leaf.grad).detach() for leaf in self.leaves]
        if len({(item.device, item.dtype) for item in gradients}) != 1:
            return []
        norms: list[float] = torch.stack(torch._foreach_norm(gradients)).tolist()
        return norms


class GradientNorms(Check):
    """Reads the norms at each step on a CPU, and on a GPU only at steps that are measured in detail anyway."""

    def before_step(self, optimizer: Any) -> None:
        if self.probe.meter.device != "cpu" and not self.probe.is_measured:
            return
        gradients = self.probe.checks.gradients_of(optimizer)
        if gradients.norms:
            self.measured(optimizer, gradients.leaves, gradients.norms)

    def measured(self, optimizer: Any, leaves: list[torch.Tensor], norms: list[float]) -> None:
        """A step is about to use gradients of these norms."""
