"""Parameters learn nothing, because every path from the loss to them goes through an operator with a zero gradient.

At every fifth backward pass, the check finds nodes of `round`, `floor`, `ceil`, `trunc` and `sign`, and the parameters
that the loss reaches only through them. It reports a problem if there were such parameters in three of these passes,
and an optimizer holds them. A straight-through gradient (`x + (x.round() - x).detach()`) has no such node. The reported
line is the operator.

Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons" (2013).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.graphs import NODES
from torchlint_probe.operators import origin

_EVERY = 5
_LOOKS = 3
_FLAT = ("RoundBackward", "FloorBackward", "CeilBackward", "TruncBackward", "SignBackward", "SgnBackward")


class GradientThroughRounding(Check):
    """Traverses a few graphs."""

    name = "gradient-through-rounding"
    code = "TW110"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._backwards = 0
        self._found: dict[int, tuple[str, int, str]] = {}
        """By site: the operator, the number of graphs, and the names of parameters that are only behind it."""

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        self._backwards += 1
        if self._backwards % _EVERY or not self.probe.optimizers:
            return
        graph = self.probe.checks.graph_of(roots)
        flat = [node for node in graph if node.name().startswith(_FLAT)] if len(graph) < NODES else []
        if not flat:
            return
        reached = {id(node.variable) for node in _before(roots) if hasattr(node, "variable")}
        behind = [node.variable for node in graph if hasattr(node, "variable") and id(node.variable) not in reached]
        behind = [leaf for leaf in behind if self.probe.checks.holds(leaf)]
        if behind:
            made = origin(flat[0]).site
            name, looks, _ = self._found.get(made, (flat[0].name().partition("Backward")[0].lower(), 0, ""))
            self._found[made] = name, looks + 1, self.models.named(behind)

    def sightings(self) -> Iterator[Sighting]:
        for site, (name, looks, named) in list(self._found.items()):
            if site and looks >= _LOOKS:
                message = f"the gradient of `{name}` is zero, and the loss reaches {named} only through it"
                yield Sighting(site, message, {"looks": looks}, 0)


def _before(roots: list[torch.Tensor]) -> Iterator[Any]:
    """The nodes that a nonzero gradient reaches."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        if not node.name().startswith(_FLAT):
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)
