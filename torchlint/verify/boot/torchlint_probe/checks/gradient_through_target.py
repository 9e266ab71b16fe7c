"""The gradient of a loss flows through its target, into the network that the loss trains.

For each line that calls a regression loss after an optimizer has stepped, the check lists the parameters that the
graphs of both sides reach. It reports a problem if, in at least three calls, one side reaches only trained parameters,
and the other side reaches both trained parameters and a copy of the network that no optimizer trains. The copy is a
target network, so the second side is the target. No gradient should flow through it. The reported line is the one that
computes the target. Losses between two outputs of one network have no such copy, and are not reported.

Source: Mnih et al., "Human-level control through deep reinforcement learning" (2015); `torch.no_grad` in PyTorch's
documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loss_calls import CALLS, REGRESSIONS, given_to, is_real
from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.graphs import leaves, nodes
from torchlint_probe.operators import origin

_MOST_CALLS = 6
_MOST_TRIES = 12


class GradientThroughTarget(Check):
    """Follows the graphs of both sides to their parameters."""

    name = "gradient-through-target"
    code = "TW112"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._tries: Counter[int] = Counter()
        self._calls: Counter[int] = Counter()
        self._wrong: dict[int, list[int]] = {}
        """By site of the loss, for each wrong call the site that computed the goal."""
        self._shared: dict[int, str] = {}

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(REGRESSIONS, self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        sides = given_to(args, kwargs)
        if not self.probe.steps or not all(is_real(side) and side.requires_grad for side in sides):
            return
        site = self.probe.sites.here()
        self._tries[site] += 1
        if self._calls[site] >= _MOST_CALLS or self._tries[site] > _MOST_TRIES:
            return
        reached = [_Reached(self, side) for side in sides]
        if not any(side.held for side in reached):
            return  # their optimizer has not stepped yet
        self._calls[site] += 1
        for prediction, goal in (reached, reversed(reached)):
            if goal.follows(prediction):
                self._wrong.setdefault(site, []).append(goal.site or site)
                self._shared[site] = self.models.named(goal.shared(prediction))

    def sightings(self) -> Iterator[Sighting]:
        for site, places in list(self._wrong.items()):
            if len(places) == self._calls[site] >= CALLS:
                calls = f"{len(places):,} of {len(places):,} calls"
                message = f"in {calls}, gradients also flow through this goal into {self._shared[site]}"
                yield Sighting(places[0], message, {"calls": len(places)}, 1)


class _Reached:
    """The parameters that the graph of one side reaches: those of optimizers, and others."""

    def __init__(self, check: Check, side: torch.Tensor) -> None:
        found = [leaf for leaf in leaves(nodes([side])) if isinstance(leaf, torch.nn.Parameter)]
        self.held = [leaf for leaf in found if check.probe.checks.holds(leaf)]
        self.others = [leaf for leaf in found if not check.probe.checks.holds(leaf)]
        self.site = 0 if side.grad_fn is None else origin(side.grad_fn).site

    def shared(self, other: _Reached) -> list[torch.Tensor]:
        """The parameters of optimizers that both sides reach."""
        known = {id(leaf) for leaf in other.held}
        return [leaf for leaf in self.held if id(leaf) in known]

    def follows(self, prediction: _Reached) -> bool:
        """Whether this is a goal with gradients into the network of the prediction, and has a copy of it."""
        if prediction.others or not self.others or not self.shared(prediction):
            return False
        shapes = Counter(tuple(leaf.shape) for leaf in prediction.held)
        return not Counter(tuple(leaf.shape) for leaf in self.others) - shapes
