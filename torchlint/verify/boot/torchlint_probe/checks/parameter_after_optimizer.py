"""Parameters that were created or unfrozen after the optimizer get gradients, but no optimizer updates them.

At every fifth step of an optimizer, the check looks at the models that ran, and lists their parameters that have a
gradient and are in no optimizer. It reports a problem if there were some in two of these steps, with unchanged values,
and they were registered or unfrozen after the optimizer that holds other parameters of the same model. The reported
line is the one that unfroze or created them. If that line is in a helper function, the check reports the call of the
helper in the function that created the optimizer. Use `add_param_group`, or create the optimizer afterwards.

Source: "Optimizer, constructing it" in PyTorch's documentation of `torch.optim`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_EVERY = 5
_SETTER: Any = torch.Tensor.requires_grad.__set__


class ParameterAfterOptimizer(Check):
    """Stores parameters that come late."""

    name = "parameter-after-optimizer"
    code = "TW210"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._switches: dict[tuple[int, int], set[int]] = {}
        """By line that freezes or unfreezes parameters, its sites; it is a helper if there are several."""
        self._unfreezing: set[int] = set()
        self._frozen: Any = WeakTensorKeyDictionary()
        self._late: Any = WeakTensorKeyDictionary()
        """The site that created or unfroze a parameter, and the number of optimizers at that time."""
        self._optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """The steps of optimizers. It has no optimizers that are made after the parameter."""
        self._versions: dict[int, int] = {}
        self._seen: dict[int, Sighting] = {}
        self._held: dict[int, int] = {}
        """By site, the number of late parameters that an optimizer holds and trains."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.Module, "register_parameter", _Hook(probe))

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys((torch.Tensor.requires_grad_, _SETTER), self._switched)

    def _switched(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        leaf = args[0]
        if not isinstance(leaf, torch.nn.Parameter):
            return
        site = self.probe.sites.here()
        self._switches.setdefault(self._line(site), set()).add(site)
        if not leaf.requires_grad:
            self._frozen[leaf] = True
        elif self._frozen.pop(leaf, False):
            self._unfreezing.add(site)
            self.came(leaf)

    def _line(self, site: int) -> tuple[int, int]:
        return next(iter(self.probe.sites.stacks[site]), (-1, 0))

    def _place(self, site: int, made: int) -> int:
        """The line to report for parameters that came at a site, after their optimizer was made."""
        if site in self._unfreezing and len(self._switches[self._line(site)]) == 1:
            return site
        return self.probe.sites.apart(site, made)

    def came(self, leaf: torch.Tensor) -> None:
        """A parameter was created or unfrozen."""
        made = self.probe.optimizers
        if made:
            self._late[leaf] = self.probe.sites.here(), made

    def before_step(self, optimizer: Any) -> None:
        steps = self._optimizers[optimizer] = self._optimizers.get(optimizer, 0) + 1
        if steps % _EVERY or not self._late:
            return
        order = {id(leaf): self.probe.order_of(item) for item in list(self._optimizers) for leaf in leaves_of(item)}
        before, self._versions = self._versions, {}
        for model in self.models:
            self._look(list(model.parameters()), order, before)

    def _look(self, leaves: list[torch.Tensor], order: dict[int, int], before: dict[int, int]) -> None:
        first = min((order[id(leaf)] for leaf in leaves if id(leaf) in order), default=-1)
        came = [leaf for leaf in leaves if leaf.grad is not None and leaf in self._late]
        for site in {self._late[leaf][0] for leaf in came}:
            held = sum(id(leaf) in order for leaf in came if self._late[leaf][0] == site)
            if held:
                self._held[site] = held
        late = [leaf for leaf in came if id(leaf) not in order]
        late = [leaf for leaf in late if leaf.requires_grad and 0 <= first < self._late[leaf][1]]
        self._versions |= {id(leaf): leaf._version for leaf in late}
        optimizer = next((item for item in list(self._optimizers) if self.probe.order_of(item) == first), None)
        made = self.probe.made_at(optimizer) if optimizer is not None else 0
        for site in {self._late[leaf][0] for leaf in late}:
            own = [leaf for leaf in late if self._late[leaf][0] == site]
            self._seen.pop(site, None)
            if all(before.get(id(leaf)) == leaf._version for leaf in own):
                message = (
                    f"{self.models.named(own)} came after the optimizer: they get gradients, but no step updates them"
                )
                self._seen[site] = Sighting(self._place(site, made), message, {"parameters": len(own)})

    def acquittals(self) -> Iterator[Sighting]:
        for site, held in list(self._held.items()):
            if site not in self._seen:
                message = f"an optimizer holds the parameters from this line, and {held:,} get gradients"
                yield Sighting(site, message, {"parameters": held})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


class _Hook(Hook):
    """Wraps `Module.register_parameter`, which assignments of parameters call too."""

    def __call__(self, original: Callable[..., Any], module: Any, name: str, param: Any) -> None:
        original(module, name, param)
        if self._probe.optimizers and isinstance(param, torch.nn.Parameter):
            self._probe.checks.tell_one(ParameterAfterOptimizer, "came", param)
