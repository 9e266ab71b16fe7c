"""The checks of a watched run, one module each. Each docstring states the question, when it is yes, and the source."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchlint_probe.checks._gradient_norms import Gradients
from torchlint_probe.checks._names import Models, leaves_of
from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.contained import contained
from torchlint_probe.graphs import nodes

if TYPE_CHECKING:
    import torch

    from torchlint_probe.hooks import Hooks
    from torchlint_probe.lines import Watch
    from torchlint_probe.probe import Probe


class Checks:
    """The checks that run. An internal error in one check ends that check only."""

    def __init__(self, probe: Probe, names: Sequence[str]) -> None:
        self._probe = probe
        self.models = Models()
        self.all = [_class(name)(probe) for name in names]
        self._hearing: dict[str, list[tuple[Check, Callable[..., Any]]]] = {}
        """By event that has occurred, the checks that handle it, with their methods."""
        self._kinds: dict[type[Check], list[Check]] = {}
        """By class that a hook has asked for, the checks of it."""
        self._gradients: Gradients | None = None
        self._graph: list[Any] | None = None
        self._held: dict[int, weakref.ref[torch.Tensor]] = {}
        """By identity, the parameters of optimizers that have stepped."""
        self._holders: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    def __bool__(self) -> bool:
        return bool(self.all)

    def tap(self, hooks: Hooks) -> None:
        """Put their hooks in place."""
        for check in list(self.all):
            self._tap(check, hooks)

    @contained
    def _tap(self, check: Check, hooks: Hooks) -> None:
        try:
            check.tap(hooks, self._probe)
        except Exception:
            self._end(check)
            raise

    def watches(self) -> list[Watch]:
        """The lines that they observe."""
        return [watch for check in self.all for watch in check.watches()]

    def _end(self, check: Check) -> None:
        self.all.remove(check)
        self._hearing, self._kinds = {}, {}

    def tell(self, event: str, *details: Any) -> None:
        """Report an event to each check."""
        hearing = self._hearing.get(event)
        if hearing is None:
            nothing = getattr(Check, event)
            handling = [check for check in self.all if getattr(type(check), event) is not nothing]
            hearing = self._hearing[event] = [(check, getattr(check, event)) for check in handling]
        for check, method in hearing:
            try:
                method(*details)
            except Exception as error:
                self._fail(check, event, error)

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """An outermost call of a module has ended."""
        self.models.add(module)
        self.tell("called", module, args, output)

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        """A backward is about to run."""
        self._graph = None
        self.tell("before_backward", roots, site)
        self._graph = None

    def before_unseen_backward(self, roots: list[torch.Tensor]) -> None:
        """A backward is about to run, in a step that is only counted."""
        self.tell("before_unseen_backward", roots)

    def graph_of(self, roots: list[torch.Tensor]) -> list[Any]:
        """The graph nodes of the losses that are about to go backward; for use while checks handle this event."""
        if self._graph is None:
            self._graph = nodes(roots)
        return self._graph

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        groups = len(optimizer.param_groups)
        if self._holders.get(optimizer) != groups:
            self._holders[optimizer] = groups
            self._held |= {id(leaf): weakref.ref(leaf) for leaf in leaves_of(optimizer)}
        self._gradients = None
        self.tell("before_step", optimizer)
        self._gradients = None

    def holds(self, leaf: torch.Tensor) -> bool:
        """Whether an optimizer that has stepped has a parameter."""
        held = self._held.get(id(leaf))
        return held is not None and held() is leaf

    def gradients_of(self, optimizer: Any) -> Gradients:
        """The gradients that a step is about to use; for use while checks handle this event."""
        if self._gradients is None or self._gradients.optimizer is not optimizer:
            self._gradients = Gradients(optimizer)
        return self._gradients

    def _fail(self, check: Check, event: str, error: Exception) -> None:
        """A check has raised an error: end it, and record the error, as `contained` does."""
        if check in self.all:
            self._end(check)
        noted = self._probe
        noted.trouble = noted.trouble or f"{type(error).__name__} in {event} of {check.name}: {error}"[:300]

    def tell_one(self, kind: type[Check], event: str, *details: Any) -> None:
        """Call the check of a class, if it runs."""
        checks = self._kinds.get(kind)
        if checks is None:
            checks = self._kinds[kind] = [check for check in self.all if isinstance(check, kind)]
        for check in checks:
            try:
                getattr(check, event)(*details)
            except Exception as error:
                self._fail(check, event, error)

    def operators(self) -> dict[Any, list[Operated]] | None:
        """By function, the checks that observe its calls; None if no check observes calls or lines."""
        told: dict[Any, list[Operated]] = {}
        for check in self.all:
            for function, operated in check.operators().items():
                told.setdefault(function, []).append(operated)
        return told if told or self.every_call or any(check.uses_lines for check in self.all) else None

    @property
    def every_call(self) -> list[Operated]:
        """The checks that observe every operator."""
        return [check.operated for check in self.all if hasattr(check, "operated")]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Checksums of operators, for a comparison with another run."""
        return [call for check in self.all for call in getattr(check, "calls", ())]

    @property
    def replicas(self) -> list[dict[str, Any]]:
        """Checksums of parameters, for a comparison with other ranks."""
        return [replica for check in self.all for replica in list(getattr(check, "replicas", ()))]

    @property
    def batches(self) -> list[dict[str, Any]]:
        """Checksums of batches, for a comparison with other ranks."""
        return [batch for check in self.all for batch in list(getattr(check, "batches", ()))]

    @property
    def members(self) -> list[dict[str, Any]]:
        """The collective calls of this rank, for a comparison with other ranks."""
        return [member for check in self.all for member in getattr(check, "members", ())]

    @property
    def standing(self) -> dict[str, Any] | None:
        """The same, in short, for the launcher; None if this process is no rank."""
        return next((check.standing for check in self.all if check.standing is not None), None)

    def sightings(self) -> list[dict[str, Any]]:
        """All sightings, as JSON values."""
        return [_as_json(check, seen) for check in list(self.all) for seen in check.sightings()]

    def acquittals(self) -> list[dict[str, Any]]:
        """The lines that the run has shown to be correct, as JSON values."""
        return [_as_json(check, seen) for check in list(self.all) for seen in check.acquittals()]


def _as_json(check: Check, seen: Sighting) -> dict[str, Any]:
    return {
        "check": check.name,
        "site": seen.site,
        "message": seen.message,
        "numbers": {name: float(value) for name, value in seen.numbers.items() if abs(value) < float("inf")},
        "first_step": seen.first_step,
        "advice": seen.advice,
    }


def _class(name: str) -> type[Check]:
    """The check of this name. Its module and its class have the same name, in their own spelling."""
    module = import_module(f"torchlint_probe.checks.{name.replace('-', '_')}")
    found: type[Check] = getattr(module, "".join(word.capitalize() for word in name.split("-")))
    return found
