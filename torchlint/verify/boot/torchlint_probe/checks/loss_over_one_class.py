"""A loss normalizes over a dimension of size one, so its input does not matter and gets no gradient.

The check reads the number of classes in each call of `cross_entropy`, and asks for each call of other losses whether
a softmax over one value computed the input. It reports a problem if there was one class or value in each of at least
three calls with a graph. The softmax of one value is always 1, and its logarithm is 0. For two classes in one
channel, use `binary_cross_entropy_with_logits`. At lines that the linter reports, the check also reads the size of
the dimension of each softmax and `argmax`.

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
_SOFTMAXES = (
    *(functional.softmax, functional.log_softmax, functional.softmin),
    *(torch.softmax, torch.log_softmax, torch.Tensor.softmax, torch.Tensor.log_softmax),
    *(torch.argmax, torch.Tensor.argmax),
)


class LossOverOneClass(Check):
    """Reads sizes."""

    name = "loss-over-one-class"
    code = "TW303"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._classes = LossLines(probe)
        self._softmaxes = LossLines(probe)
        self._others = LossLines(probe)
        self._counts = self.is_asked("single-class")

    def operators(self) -> Mapping[Any, Operated]:
        asked = _SOFTMAXES if self._counts else ()
        return {
            **dict.fromkeys((functional.cross_entropy, *_OTHERS), self._operated),
            **dict.fromkeys(asked, self._normalized),
        }

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, _ = given_to(args, kwargs)
        if not is_real(given) or not given.requires_grad:
            return
        if func is functional.cross_entropy:
            self._classes.look(lambda: given.dim() > 1 and given.shape[1] == 1)
        elif not self.probe.saved_hooks:
            self._others.look(lambda: _is_softmax_of_one(given))

    def _normalized(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A softmax or an `argmax` has run."""
        given = args[0] if args else kwargs.get("input")
        dimension = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if isinstance(given, torch.Tensor) and isinstance(dimension, int) and given.dim() and given.numel():
            self._softmaxes.look(lambda: given.shape[dimension] == 1)

    def acquittals(self) -> Iterator[Sighting]:
        for lines, beside in ((self._classes, self._softmaxes), (self._softmaxes, self._classes)):
            for site, line in lines.right():
                if beside.is_right_or_unused(site):
                    message = f"there were several classes in {line.calls:,} of {line.calls:,} calls"
                    yield Sighting(site, message, {"calls": line.calls})

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._softmaxes.wrong():
            message = f"the dimension has one element in {line.calls:,} of {line.calls:,} calls: the result is constant"
            yield Sighting(site, message, {"calls": line.calls}, 0)
        for site, line in (*self._classes.wrong(), *self._others.wrong()):
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
