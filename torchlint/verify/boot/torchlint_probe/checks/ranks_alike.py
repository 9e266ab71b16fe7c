"""All ranks train on the same batches, so several devices compute what one could compute alone.

The check records, in each rank, checksums of the first tensor that `DistributedDataParallel` gets in its first calls
with gradients. It compares them after the run. It reports a problem if the wrapper includes all ranks, and all of them
got the same values in each of at least three calls, and different values from call to call. Such a program needs a
`DistributedSampler`, or ranks that draw their data with different seeds. Without a wrapper, the same applies to the
network that is called first, if the program reduces all gradients over the ranks before each step. If the ranks divide
one model between them, they share a batch on purpose. Such programs use no wrapper and do not reduce all gradients, so
they are not reported. The reported line is the loader that training iterates over, or the call.

Source: `torch.utils.data.distributed.DistributedSampler` in PyTorch's documentation.
"""

from __future__ import annotations

import weakref
import zlib
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from torchlint_probe.checks._batches import first_tensor, first_values
from torchlint_probe.checks.check import Check, Telling

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 5
_WRAPPERS = 10


class RanksAlike(Check):
    """Notes checksums of batches."""

    name = "ranks-alike"
    code = "TW604"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By loader, the site that created it."""
        self._loading = 0
        """The site of the loader whose loop began last."""
        self._calls: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()
        """By wrapper, its number and the number of its calls."""
        self._wrappers = 0
        self._network: weakref.ref[torch.nn.Module] | None = None
        """The first trained network that no wrapper contains."""
        self.batches: list[dict[str, Any]] = []

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(DataLoader, "__init__", Telling(probe, cls, "made"))
        hooks.replace(DataLoader, "__iter__", Telling(probe, cls, "began"))

    def made(self, loader: Any) -> None:
        """The program has made a loader."""
        self._made[loader] = self.probe.sites.here()

    def began(self, loader: Any) -> None:
        """A loop over a loader begins."""
        self._loading = self._made.get(loader, 0)

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        is_wrapped = isinstance(module, DistributedDataParallel)
        if not torch.is_grad_enabled() or not (is_wrapped or self._is_network(module)):
            return
        if module not in self._calls:
            self._calls[module] = [self._wrappers, 0]
            self._wrappers += 1
        number, call = self._calls[module]
        tensor = first_tensor(args)
        if call >= _CALLS or number >= _WRAPPERS or tensor is None or tensor.requires_grad:
            return
        self._calls[module][1] += 1
        ranks = distributed.get_world_size()
        values = first_values(tensor)
        if values and ranks > 1 and (not is_wrapped or ranks == module.process_group.size()):
            site = self._loading or self.probe.sites.here()
            batch = {"site": site, "rank": distributed.get_rank(), "ranks": ranks, "wrapper": number, "call": call}
            self.batches.append({**batch, "is_wrapped": is_wrapped, "sum": zlib.crc32(values)})

    def _is_network(self, module: torch.nn.Module) -> bool:
        """Whether this is the network of a rank that wraps none."""
        if not distributed.is_available() or not distributed.is_initialized():
            return False
        if self._network is None and any(leaf.requires_grad for leaf in module.parameters()):
            self._network = weakref.ref(module)
        return self._network is not None and self._network() is module
