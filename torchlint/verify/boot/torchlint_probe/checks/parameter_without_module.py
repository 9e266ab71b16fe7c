"""Parameters get gradients but are never updated, because no module registers them and no optimizer holds them.

At every fifth backward pass, the check lists the parameters that the pass reaches. It reports a problem if some were
reached in three of these passes and kept their values, and neither `parameters()` of a called model nor an optimizer
that has stepped contains them. Layers in a plain list or dictionary look like this: `nn.ModuleList` and `nn.ModuleDict`
register them. The reported line is the one that computes with them.

Source: `torch.nn.ModuleList` in PyTorch's documentation.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.graphs import NODES
from torchlint_probe.operators import origin

_EVERY = 5
_LOOKS = 3


class ParameterWithoutModule(Check):
    """Traverses a few graphs."""

    name = "parameter-without-module"
    code = "TW208"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._backwards = self._looks = 0
        self._free: dict[int, tuple[weakref.ref[torch.Tensor], int, int]] = {}
        """By identity: an unregistered parameter, its version, and the site that computes with it."""

    def before_step(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        self._backwards += 1
        if self._backwards % _EVERY or self._looks == _LOOKS or not self._optimizers:
            return
        owned = {id(leaf) for model in self.models for leaf in model.parameters()}
        owned |= {id(leaf) for optimizer in list(self._optimizers) for leaf in leaves_of(optimizer)}
        free = {id(leaf): (leaf, at) for leaf, at in _used(roots) if id(leaf) not in owned}
        kept = {key for key, (leaf, version, _) in self._free.items() if _is_same(free.get(key), leaf, version)}
        if self._looks:
            self._free = {key: item for key, item in self._free.items() if key in kept}
        else:
            self._free = {key: (weakref.ref(leaf), leaf._version, at) for key, (leaf, at) in free.items()}
        self._looks += 1

    def sightings(self) -> Iterator[Sighting]:
        sites: dict[int, int] = {}
        for _, _, site in list(self._free.values()):
            sites[site] = sites.get(site, 0) + 1
        for site, count in sites.items():
            if self._looks == _LOOKS:
                few = f"{count:,} parameter{'' if count == 1 else 's'}"
                message = (
                    f"{few} that are used here get gradients, and are in no model's `parameters()` and no optimizer"
                )
                yield Sighting(site, message, {"parameters": count}, 0)


def _is_same(found: tuple[torch.Tensor, int] | None, before: weakref.ref[torch.Tensor], version: int) -> bool:
    return found is not None and before() is found[0] and found[0]._version == version


def _used(roots: list[torch.Tensor]) -> Iterator[tuple[torch.Tensor, int]]:
    """The parameters that a backward reaches, each with the nearest known site that computes with it."""
    queue = deque((root.grad_fn, 0) for root in roots if root.grad_fn is not None)
    seen = {node for node, _ in queue}
    while queue and len(seen) < NODES:
        node, around = queue.popleft()
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.nn.Parameter):
            yield leaf, around
        site = origin(node).site or around
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                queue.append((following, site))
