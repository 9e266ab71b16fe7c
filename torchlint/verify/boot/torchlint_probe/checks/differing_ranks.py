"""Ranks that should have the same parameters do not, so each rank trains a model of its own.

The check compares checksums of the parameters of all ranks of a process group after a few of the first forty steps. It
compares them after the run. It reports a problem if some checksums differ at one of these steps and at all later ones,
at least two in total. The parameters must also be meant to be equal, for one of these reasons:
- `DistributedDataParallel` wraps them.
- They changed, and were equal at three of these steps before.
- The program reduced all of their gradients over the ranks before each of at least three steps.
- Other parameters of the same layers stay equal while they change. If no layer is shared, the result is inconclusive.

Sharded parameters are left out.

Source: "DistributedDataParallel, internal design" in PyTorch's documentation; "TrainCheck" (OSDI 2025), weights that
silently diverge.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Telling
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_LOOKS = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40}
"""Steps of an optimizer after which its parameters get a checksum."""
_ELEMENTS = 1_024
_PARAMETERS = 200


class DifferingRanks(Check):
    """Notes checksums."""

    name = "differing-ranks"
    code = "TW403"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._wrappers: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """All `DistributedDataParallel`."""
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._made = 0
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._reduced: set[int] = set()
        """The memory of tensors that were reduced since the last step,"""
        self._elements = 0
        """and the number of their elements."""
        self._averaged = False
        self.replicas: list[dict[str, Any]] = []

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.parallel.DistributedDataParallel, "__init__", Telling(probe, cls, "wrapped"))
        if distributed.is_available():
            for owner in (import_module("torch.distributed.distributed_c10d"), distributed):
                hooks.listen(owner, "all_reduce", _Reduced(probe))

    def reduced(self, tensor: Any) -> None:
        """The program has reduced a tensor over all ranks."""
        if isinstance(tensor, torch.Tensor):
            self._reduced.add(tensor.data_ptr())
            self._elements += tensor.numel()

    def before_step(self, optimizer: Any) -> None:
        gradients = [leaf.grad for leaf in leaves_of(optimizer) if leaf.grad is not None] if self._reduced else []
        is_flat = self._elements == sum(item.numel() for item in gradients)
        self._averaged = bool(gradients) and (
            is_flat or self._reduced.issuperset(item.data_ptr() for item in gradients)
        )

    def wrapped(self, wrapper: torch.nn.Module) -> None:
        """The program has made a `DistributedDataParallel`."""
        self._wrappers.add(wrapper)

    def after_step(self, optimizer: Any) -> None:
        self._reduced.clear()
        self._elements = 0
        if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:
            return
        if optimizer not in self._numbers:
            self._numbers[optimizer] = self._made
            self._made += 1
        number = self._numbers[optimizer]
        step = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if step in _LOOKS:
            leaves = [
                leaf for leaf in leaves_of(optimizer) if leaf.requires_grad and not hasattr(leaf, "_local_tensor")
            ]
            self.replicas.append(self._replica(optimizer, number, step, leaves[:_PARAMETERS]))

    def _replica(self, optimizer: Any, number: int, step: int, leaves: list[torch.Tensor]) -> dict[str, Any]:
        promised = {id(leaf) for wrapper in list(self._wrappers) for leaf in wrapper.parameters()}
        return {
            "site": self.probe.made_at(optimizer),
            "rank": distributed.get_rank(),
            "optimizer": number,
            "step": step,
            "averaged": self._averaged,
            "promised": bool(leaves) and promised.issuperset(map(id, leaves)),
            "names": self.models.names(leaves),
            "sums": [_sum(leaf) for leaf in leaves],
        }


class _Reduced(Hook):
    """Wraps `all_reduce`."""

    def __call__(self, original: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if self._probe.looking:
            self._probe.checks.tell_one(DifferingRanks, "reduced", tensor)
        return original(tensor, *args, **kwargs)


def _sum(leaf: torch.Tensor) -> int:
    values = leaf.detach().reshape(-1)[:_ELEMENTS].cpu().contiguous()
    return zlib.crc32(values.view(torch.uint8).numpy().tobytes())
