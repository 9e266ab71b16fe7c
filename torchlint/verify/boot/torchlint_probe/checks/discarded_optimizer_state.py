"""An optimizer loads its state and never steps: another optimizer of the same kind trains its parameters.

For each `load_state_dict` of an optimizer, the check asks whether the state holds moments, and which optimizer uses the
parameters in later steps. It reports a problem if the optimizer that loaded the state never steps, and another
optimizer of the same class takes at least ten steps with all of these parameters. This other optimizer must have been
created after the load, without a state. Its moments then start at zero, as if training had started again. The reported
line is the load. A new optimizer of a different class is a deliberate choice.

Source: "Saving and Loading a General Checkpoint" in PyTorch's recipes: the optimizer's state is part of a checkpoint.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting, Telling

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_STEPS = 10
_LOADS = 20


class _Load:
    """A load: the optimizer's class and parameters, and the steps that other optimizers make with them."""

    def __init__(self, optimizer: Any, site: int, made: int) -> None:
        self.kind = type(optimizer)
        self.optimizer = weakref.ref(optimizer)
        self.leaves = frozenset(map(id, leaves_of(optimizer)))
        self.alive = [weakref.ref(leaf) for leaf in leaves_of(optimizer)]
        self.site = site
        self.made = made
        """The number of optimizers at that time."""
        self.steps = 0

    def belongs_to(self, optimizer: Any) -> bool:
        """Whether another optimizer has the same parameters, which still exist."""
        own = frozenset(map(id, leaves_of(optimizer)))
        return own == self.leaves and all(leaf() is not None for leaf in self.alive)


class DiscardedOptimizerState(Check):
    """Follows each optimizer that has loaded moments until it steps."""

    name = "discarded-optimizer-state"
    code = "TW213"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._loads: list[_Load] = []
        self._loaders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._heirs: weakref.WeakKeyDictionary[Any, list[_Load]] = weakref.WeakKeyDictionary()
        """By optimizer that has stepped, the loads whose parameters it has taken over."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.optim.Optimizer, "load_state_dict", Telling(probe, cls, "loaded"))

    def loaded(self, optimizer: Any) -> None:
        """An optimizer has loaded a state."""
        self._loaders.add(optimizer)
        site = self.probe.sites.here()
        if site and optimizer.state and len(self._loads) < _LOADS:
            self._loads.append(_Load(optimizer, site, self.probe.optimizers))

    def before_step(self, optimizer: Any) -> None:
        if not self._loads:
            return
        if optimizer in self._loaders:
            self._loads = [load for load in self._loads if load.optimizer() is not optimizer]
            return
        if optimizer not in self._heirs:
            order = self.probe.order_of(optimizer)
            is_new = not optimizer.state
            later = [load for load in self._loads if order >= load.made and type(optimizer) is load.kind]
            self._heirs[optimizer] = [load for load in later if is_new and load.belongs_to(optimizer)]
        for load in self._heirs[optimizer]:
            load.steps += 1

    def sightings(self) -> Iterator[Sighting]:
        for load in list(self._loads):
            if load.steps >= _STEPS:
                message = (
                    f"the state that this `{load.kind.__name__}` loads is not used: another one was created later and "
                    f"makes all {load.steps:,} steps with the same parameters"
                )
                yield Sighting(load.site, message, {"steps": load.steps})
