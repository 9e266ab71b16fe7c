"""Every backward computes unused gradients, because the graph of a loss target reaches untrained parameters.

For each line that calls a regression loss after an optimizer has stepped, the check lists the parameters that the
graphs of both sides reach. It reports a problem if, in at least three calls, one side reaches parameters of optimizers
and the other side reaches only other parameters. A line is correct if one side has no graph in three calls.

Source: `torch.no_grad` in PyTorch's documentation, and "Reinforcement Learning (DQN) Tutorial".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loss_calls import CALLS, REGRESSIONS, given_to, is_real
from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.graphs import leaves, nodes

_MOST_CALLS = 12


class TargetWithGradient(Check):
    """Follows the graphs of both sides to their parameters."""

    name = "target-with-gradient"
    code = "TL209"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._calls: Counter[int] = Counter()
        self._wrong: Counter[int] = Counter()
        self._cut: Counter[int] = Counter()
        self._parameters: dict[int, int] = {}

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(REGRESSIONS, self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        sides = given_to(args, kwargs)
        if not all(map(is_real, sides)) or not torch.is_grad_enabled() or not self.probe.steps:
            return
        site = self.probe.sites.here()
        if self._calls[site] >= _MOST_CALLS:
            return
        self._calls[site] += 1
        self._cut[site] += sum(side.requires_grad for side in sides) == 1
        unheld, held = sorted(([self._parameters_of(side) for side in sides]), key=lambda found: found[1])
        if held[1] and not unheld[1] and unheld[0]:
            self._wrong[site] += 1
            self._parameters[site] = unheld[0]

    def _parameters_of(self, side: torch.Tensor) -> tuple[int, int]:
        """The number of parameters that the graph of one side reaches, and how many of them an optimizer holds."""
        found = [leaf for leaf in leaves(nodes([side])) if isinstance(leaf, torch.nn.Parameter)]
        return len(found), sum(map(self.probe.checks.holds, found))

    def sightings(self) -> Iterator[Sighting]:
        for site, count in list(self._wrong.items()):
            if count == self._calls[site] >= CALLS:
                number = self._parameters[site]
                message = (
                    f"one side of the loss has a graph to {number:,} parameters, all without an optimizer, in "
                    f"{count:,} of {count:,} calls: each backward computes gradients that nothing uses"
                )
                yield Sighting(site, message, {"parameters": number, "calls": count}, 1)

    def acquittals(self) -> Iterator[Sighting]:
        for site, count in list(self._cut.items()):
            if count == self._calls[site] >= CALLS:
                message = f"one side of the loss had no graph in {count:,} of {count:,} calls"
                yield Sighting(site, message, {"calls": count})
