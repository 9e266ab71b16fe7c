"""The loss is a new tensor with `requires_grad=True`: it has no graph, so no parameter learns.

For each line that calls `backward`, the check asks whether the loss was computed from anything. It reports a problem if
every loss, in at least three calls, was a leaf that no optimizer holds. The only gradient is then that of the loss
itself, which is 1. `requires_grad_()` on a loss, and `torch.tensor(loss, requires_grad=True)`, silence the error that a
loss without a graph raises. The reported line is the one that created the leaf, if the check observed it.

Source: "Autograd mechanics" in PyTorch's notes, on leaves.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Operated, Sighting

_BACKWARDS = 3
_SETTER: Any = torch.Tensor.requires_grad.__set__


class LossOutsideGraph(Check):
    """Looks at the roots of backwards."""

    name = "loss-outside-graph"
    code = "TW111"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._lines: dict[int, list[int]] = {}
        """By site of the backward: their number, how many had a leaf as root, and the site of the last leaf."""

        self._has_stepped = False

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys((torch.Tensor.requires_grad_, _SETTER, torch.tensor), self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        tensor = args[0] if func is _SETTER else result
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.numel() == 1 and tensor.is_leaf:
            if len(self._made) > 1_000:
                self._made.clear()
            self._made[id(tensor)] = weakref.ref(tensor), self.probe.sites.here()

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        line = self._lines.setdefault(site, [0, 0, 0])
        line[0] += 1
        if roots and all(_is_free(root) and not self.probe.checks.holds(root) for root in roots):
            line[1] += 1
            made = self._made.get(id(roots[0]))
            line[2] = made[1] if made is not None and made[0]() is roots[0] else site

    def before_step(self, optimizer: Any) -> None:
        self._has_stepped = True

    def sightings(self) -> Iterator[Sighting]:
        if not self._has_stepped:
            return
        for backwards, leaves, site in list(self._lines.values()):
            if backwards == leaves >= _BACKWARDS:
                message = (
                    f"the loss of {leaves:,} of {backwards:,} backwards was created here without a graph: no parameter "
                    "gets a gradient"
                )
                yield Sighting(site, message, {"backwards": backwards}, 0)


def _is_free(root: torch.Tensor) -> bool:
    return root.grad_fn is None and root.requires_grad and not isinstance(root, torch.nn.Parameter)
