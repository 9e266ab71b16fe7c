"""Loading of weights: the part that checks of `load_state_dict` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check
from torchlint_probe.contained import contained

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe


class Loads(Check):
    """Observes each `load_state_dict` of a module, before and after."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.Module, "load_state_dict", _Hook(probe, cls))

    def loading(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """A module is about to load a state."""

    def loaded(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """A module has loaded it."""


class _Hook:
    def __init__(self, probe: Probe, kind: type[Loads]) -> None:
        self._probe = probe
        self._kind = kind

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    def __call__(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        state = args[0] if args else kwargs.get("state_dict")
        self._tell("loading", module, state)
        result = original(module, *args, **kwargs)
        self._tell("loaded", module, state)
        return result

    @contained
    def _tell(self, event: str, module: Any, state: Any) -> None:
        if isinstance(state, Mapping):
            self._probe.checks.tell_one(self._kind, event, module, state)


def own_state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module by name; shared ones with all their names."""
    named = module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
    return {name: tensor for pairs in named for name, tensor in pairs}


def versions(module: torch.nn.Module) -> int:
    """A number that grows with each change of a parameter."""
    return sum(parameter._version for parameter in module.parameters())


def memory(tensor: torch.Tensor) -> int:
    """The address of a tensor's values; 0 if it has no memory of its own."""
    try:
        return int(tensor.data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def loads_itself(module: torch.nn.Module, state: Mapping[str, Any]) -> bool:
    """Whether all tensors of a state already share the module's memory."""
    own = own_state(module)
    pairs = [(own[name], state[name]) for name in own if isinstance(state.get(name), torch.Tensor)]
    pairs = [(mine, its) for mine, its in pairs if mine.numel()]
    has_weights = any(isinstance(mine, torch.nn.Parameter) for mine, _ in pairs)
    return has_weights and all(memory(mine) and memory(mine) == memory(its) for mine, its in pairs)
