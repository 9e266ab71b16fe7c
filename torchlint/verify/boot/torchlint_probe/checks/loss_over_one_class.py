"""A loss normalizes over a dimension of size one, so its input does not matter and gets no gradient.

Asks each call of `cross_entropy` for the number of classes, and each call of other losses whether a softmax over one
value made the input. Yes if there was one class or value at every call with a graph, in three calls or more. The
softmax of one value is 1 and its logarithm is 0, whatever the value. For two classes in one channel, use
`binary_cross_entropy_with_logits`.

Source: `torch.nn.CrossEntropyLoss` in PyTorch's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional

from torchlint_probe.checks._loss_calls import LossLines, given_to, is_real, maker
from torchlint_probe.checks.check import Check, Operated, Sighting

_OTHERS = (
    functional.nll_loss,
    functional.binary_cross_entropy,
    functional.binary_cross_entropy_with_logits,
    functional.mse_loss,
    functional.l1_loss,
    functional.smooth_l1_loss,
    functional.huber_loss,
    functional.kl_div,
)


class LossOverOneClass(Check):
    """Reads sizes."""

    name = "loss-over-one-class"
    code = "TW303"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines = LossLines(probe)

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys((functional.cross_entropy, *_OTHERS), self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, _ = given_to(args, kwargs)
        if not is_real(given) or not given.requires_grad:
            return
        if func is functional.cross_entropy:
            self._lines.look(lambda: given.dim() > 1 and given.shape[1] == 1)
        elif not self.probe.saved_hooks:
            self._lines.look(lambda: _is_softmax_of_one(given))

    def acquittals(self) -> Iterator[Sighting]:
        for site, line in self._lines.right():
            message = f"there were several classes in {line.calls:,} of {line.calls:,} calls"
            yield Sighting(site, message, {"calls": line.calls})

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._lines.wrong():
            message = (
                f"the softmax is over one class in {line.calls:,} of {line.calls:,} calls: it is always 1, "
                "and its gradient is zero"
            )
            yield Sighting(site, message, {"calls": line.calls}, 0)


def _is_softmax_of_one(given: torch.Tensor) -> bool:
    node: Any = maker(given)
    if node is None or not node.name().startswith(("SoftmaxBackward", "LogSoftmaxBackward")):
        return False
    result = node._saved_result
    dimension = int(node._saved_dim)
    dimension -= (1 << 64) if dimension >= 1 << 63 else 0  # below zero, which autograd keeps without a sign
    return bool(result.shape[dimension] == 1)
