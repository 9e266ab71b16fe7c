"""The program keeps weights for later without a copy: every step changes them, and loading them does nothing.

For each `load_state_dict`, the check asks whether the state is the result of an earlier `state_dict()` whose tensors
all share the memory of the module. A new `dict` of the same tensors is not a copy. It reports a problem if steps have
changed the weights in between, because the state was meant to hold older ones. The reported line is `state_dict()`.
`copy.deepcopy(model.state_dict())` keeps a copy.

Source: "Saving and Loading Models" in PyTorch's tutorials: `best_model_state` has to be serialized or copied.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks._loads import Loads, loads_itself, versions
from torchlint_probe.checks.check import Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_MOST_STATES = 1_000


class _State:
    """A result of `state_dict()`: where it was made, after how many steps, and of which weights."""

    def __init__(self, tensor: torch.Tensor, site: int, step: int, version: int) -> None:
        self.tensor = weakref.ref(tensor)
        self.site = site
        self.step = step
        self.version = version


class UncopiedStateDict(Loads):
    """Stores states while they exist."""

    name = "uncopied-state-dict"
    code = "TL116"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._states: dict[int, _State] = {}
        """By the identity of its first tensor."""
        self._seen: dict[int, Sighting] = {}
        self._others: dict[int, int] = {}
        """By site, how often a state with memory of its own was loaded."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        super().tap(hooks, probe)
        hooks.replace(torch.nn.Module, "state_dict", _StateHook(probe))

    def kept(self, module: torch.nn.Module, state: Any) -> None:
        """The program has called `state_dict()` of a module."""
        tensor = next((value for value in state.values() if isinstance(value, torch.Tensor)), None)
        if len(self._states) >= _MOST_STATES:
            self._states = {number: item for number, item in self._states.items() if item.tensor() is not None}
        if len(self._states) < _MOST_STATES and tensor is not None:
            made = _State(tensor, self.probe.sites.here(), self.probe.steps, versions(module))
            self._states[id(tensor)] = made

    def loading(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        kept = next((made for tensor in state.values() if (made := self._state_of(tensor)) is not None), None)
        if kept is None:
            return
        if not loads_itself(module, state):
            self._others[kept.site] = self._others.get(kept.site, 0) + 1
            return
        steps = self.probe.steps - kept.step
        if steps > 0 and versions(module) != kept.version:
            message = (
                f"the state is not a copy: {steps:,} steps changed it before it was loaded, so loading did nothing"
            )
            self._seen.setdefault(kept.site, Sighting(kept.site, message, {"steps": steps}, kept.step))

    def _state_of(self, tensor: Any) -> _State | None:
        """The state whose first tensor this is: `state_dict()` makes new ones, and `dict(state)` keeps them."""
        made = self._states.get(id(tensor))
        return made if made is not None and made.tensor() is tensor else None

    def acquittals(self) -> Iterator[Sighting]:
        for site, loads in list(self._others.items()):
            if site not in self._seen:
                yield Sighting(site, "the state was loaded into a module with memory of its own", {"loads": loads})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


class _StateHook(Hook):
    """Wraps `Module.state_dict`; calls of modules for their parts pass a destination."""

    def __call__(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        state = original(module, *args, **kwargs)
        if not args and "destination" not in kwargs and not kwargs.get("prefix"):
            self._probe.checks.tell_one(UncopiedStateDict, "kept", module, state)
        return state
