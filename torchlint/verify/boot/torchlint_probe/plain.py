"""unregistered-module: does the module know the parameters in a plain container, and does an optimizer hold them?"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.observer import LineObserver

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_KEPT = 20
_ITEMS = 200


class Plain(LineObserver):
    """The `parameters` in containers: `known` to the module, `held` by an optimizer, `fed` by a backward.

    The `steps` are those since there were any.
    """

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._kept: list[tuple[nn.Module, Any]] = []
        self._known: set[int] = set()
        self._held: set[int] = set()
        self._fed: set[int] = set()

    def after(self, frame: FrameType) -> None:
        for path in self.claim.names:
            owner = next(values_of((path[:-1],), frame), None) if len(path) > 1 else None
            kept = next(values_of((path,), frame), None)
            is_plain = isinstance(owner, nn.Module) and isinstance(kept, (list, tuple, dict))
            if is_plain and len(self._kept) < _KEPT and not any(kept is item for _, item in self._kept):
                self._kept.append((owner, kept))

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        held = {id(leaf) for group in optimizer.param_groups for leaf in group["params"]}
        found: list[torch.Tensor] = []
        for owner, kept in self._kept:
            own = list(_parameters(kept))
            found += own
            known = {id(leaf) for leaf in owner.parameters()} if own else set()
            self._known |= {id(leaf) for leaf in own} & known
        self.counts["parameters"] = len({id(leaf) for leaf in found})
        self._held |= {id(leaf) for leaf in found} & held
        self._fed |= {id(leaf) for leaf in found if leaf.grad is not None}
        self.counts["steps"] += bool(found)

    def settle(self) -> None:
        self.counts["known"] = len(self._known)
        self.counts["held"] = len(self._held)
        self.counts["fed"] = len(self._fed)


def _parameters(kept: Any) -> Iterator[torch.Tensor]:
    """The parameters in a container, and those of the modules in it."""
    items = list(kept.values()) if isinstance(kept, dict) else list(kept)
    for item in items[:_ITEMS]:
        if isinstance(item, nn.Module):
            yield from item.parameters()
        elif isinstance(item, nn.Parameter):
            yield item
