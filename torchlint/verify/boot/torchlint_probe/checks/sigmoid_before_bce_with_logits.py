"""`binary_cross_entropy_with_logits` gets the output of a sigmoid or softmax, and applies sigmoid again.

For each line that calls this loss, the check finds the operator that computed its input, behind views, copies and
clamps. It reports a problem if it was a sigmoid or a softmax in each of at least three calls. Predictions then stay
between 0.5 and 0.73.

Source: `torch.nn.BCEWithLogitsLoss` in PyTorch's documentation: it combines a sigmoid and the loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.nn import functional

from torchlint_probe.checks._loss_calls import LossLines, given_to, is_real, maker
from torchlint_probe.checks.check import Check, Operated, Sighting

_DEPTH = 4
_ACTIVATIONS = {"SigmoidBackward0": "sigmoid", "SoftmaxBackward0": "softmax"}


class SigmoidBeforeBceWithLogits(Check):
    """Asks graphs."""

    name = "sigmoid-before-bce-with-logits"
    code = "TL502"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines = LossLines(probe)
        self._activations: dict[int, str] = {}

    def operators(self) -> Mapping[Any, Operated]:
        return {functional.binary_cross_entropy_with_logits: self._operated}

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, _ = given_to(args, kwargs)
        if not is_real(given) or not given.requires_grad:
            return
        node = maker(given)
        activation = _ACTIVATIONS.get(node.name(), "") if node is not None else ""
        if not activation and node is not None and _is_by_hand(node):
            site = self._lines.look(lambda: ((given.detach() >= 0) & (given.detach() <= 1)).all())
            self._activations[site] = "1 / (1 + exp(-x))"
            return
        site = self._lines.look(lambda: bool(activation))
        if activation:
            self._activations[site] = activation

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._lines.wrong():
            message = (
                f"`{self._activations[site]}` made the input in {line.calls:,} of {line.calls:,} calls, and the "
                "loss applies sigmoid again"
            )
            yield Sighting(site, message, {"calls": line.calls}, 0)


def _is_by_hand(node: Any) -> bool:
    """Whether a node divides by one plus an exponential: a sigmoid that the program writes itself."""
    if not node.name().startswith(("Reciprocal", "Div", "Mul")):
        return False
    waiting = [node]
    for _ in range(_DEPTH):
        waiting = [item for one in waiting for item, _ in one.next_functions if item is not None][:_DEPTH]
        if any(item.name().startswith("Exp") for item in waiting):
            return True
    return False
