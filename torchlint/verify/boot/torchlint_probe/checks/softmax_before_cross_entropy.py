"""`cross_entropy` gets probabilities, and applies softmax to them again.

For each line that calls `cross_entropy` with an input that has a graph, the check tests whether each row sums to one
and no value is below zero. It reports a problem if that was the case in each of at least three calls. The scores of two
classes then differ by at most one, so no prediction can become certain, and gradients are small.

The check also tests this for `nll_loss`, which expects log-probabilities: use `log_softmax`.

Source: `torch.nn.CrossEntropyLoss` in PyTorch's documentation: the input holds unnormalized logits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.nn import functional

from torchlint_probe.checks._loss_calls import LossLines, adds_up_to_one, given_to, is_real
from torchlint_probe.checks.check import Check, Operated, Sighting


class SoftmaxBeforeCrossEntropy(Check):
    """Adds up rows."""

    name = "softmax-before-cross-entropy"
    code = "TL501"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines = LossLines(probe)
        self._plain = LossLines(probe)
        """Lines that call `nll_loss`."""

    def operators(self) -> Mapping[Any, Operated]:
        return {functional.cross_entropy: self._operated, functional.nll_loss: self._likelihoods}

    def _likelihoods(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, _ = given_to(args, kwargs)
        if is_real(given) and given.requires_grad:
            classes = min(1, given.dim() - 1)
            self._plain.look(lambda: given.shape[classes] > 1 and adds_up_to_one(given, classes))

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, _ = given_to(args, kwargs)
        if is_real(given) and given.requires_grad:
            classes = min(1, given.dim() - 1)
            self._lines.look(lambda: given.shape[classes] > 1 and adds_up_to_one(given, classes))

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._lines.wrong():
            message = (
                f"each row of the input added up to one in {line.calls:,} of {line.calls:,} calls: these are "
                "probabilities, and the loss applies softmax again"
            )
            yield Sighting(site, message, {"calls": line.calls}, 0)
        for site, line in self._plain.wrong():
            message = (
                f"each row of the input added up to one in {line.calls:,} of {line.calls:,} calls: these are "
                "probabilities, and `nll_loss` expects their logarithms"
            )
            yield Sighting(site, message, {"calls": line.calls}, 0)
