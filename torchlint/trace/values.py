"""Values of the model as plain data: ids that say what and where, and what is known of each value."""

from __future__ import annotations

from collections.abc import Callable

from torchlint.model.tracking import Tracking
from torchlint.model.utilities import Utility
from torchlint.model.values import (
    Attribute,
    BoundMethod,
    Class,
    Container,
    Context,
    Element,
    External,
    Function,
    Gradient,
    Instance,
    Iteration,
    Module,
    ModuleOutput,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
)
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site
from torchlint.trace.document import Facts, Place, place_text

PLAIN = "plain"
"""The id of every number, text, None: they have no identity."""
_TRACKABLE = (Tensor, Phi, Container, Unknown)
_PARTS = (Attribute, Element, BoundMethod, Iteration, Gradient)
"""Unknowns that are unknown because of what they are a part of."""


class Values:
    """The values that rows mention, each with an id as soon as it is mentioned."""

    def __init__(self, tracking: Tracking, place: Callable[[Site], Place]) -> None:
        """`place` tells where a site is."""
        self.facts: dict[str, Facts] = {}
        self._tracking = tracking
        self._place = place
        self._ids: dict[object, str] = {}

    def id_of(self, value: Value) -> str:
        """The id of a value, which is described from now on, and what its description mentions too."""
        if isinstance(value, Plain):
            return PLAIN
        identity = _identity(value)
        known = self._ids.get(identity)
        if known is None:
            known = self._ids[identity] = self._new_id(value)
            self.facts[known] = {}
            self.facts[known] = self._described(value)
        return known

    def _new_id(self, value: Value) -> str:
        base = value.name if isinstance(value, External) else value.label or f"<{_kind(value)}>"
        if isinstance(value, Phi):
            base = f"either {base}"
        if value.site is not None and not isinstance(value, External):
            base += f"@{place_text(self._place(value.site))}"
        number, found = 1, base
        while found in self.facts:
            number += 1
            found = f"{base}#{number}"
        return found

    def _described(self, value: Value) -> Facts:
        known: dict[str, object] = {"kind": _kind(value), "label": value.label}
        if value.site is not None and not isinstance(value, External):
            known["at"] = self._place(value.site)
        known.update(_known(value))
        if isinstance(value, _TRACKABLE):
            known["tracked"] = self._tracking.tracked(value).value
        if value.loops:
            known["loop_depth"] = len(value.loops)
        return {name: self._plain(fact) for name, fact in known.items() if fact not in (False, None, "", ())}

    def _plain(self, fact: object) -> object:
        if isinstance(fact, Value):
            return self.id_of(fact)
        return [self._plain(item) for item in fact] if isinstance(fact, tuple) else fact


def _identity(value: Value) -> object:
    """The identity of a value: the model meets functions, classes and imports as several values."""
    if isinstance(value, (Function, Class)):
        return type(value), value.info
    return (External, value.name) if isinstance(value, External) else value


def _kind(value: Value) -> str:
    if isinstance(value, Unknown):
        return "unknown"  # a scaler, a scheduler, ... too: its origin says so
    return "tensor" if isinstance(value, Tensor) else type(value).__name__.lower()


def _known(value: Value) -> dict[str, object]:
    """Facts about a value besides its kind; other values in them are values."""
    if isinstance(value, Unknown):
        owner = value.parents[:1] if isinstance(value, _PARTS) else ()
        origin = value.kind.value if isinstance(value, Utility) else value.origin
        return {"origin": origin, "of": owner, "callee": value.callee, "mode": _mode(value.mode)}
    if isinstance(value, Tensor):
        module = value.parents[:1] if isinstance(value, ModuleOutput) else ()
        return {
            "op": value.op,
            "leaf": value.leaf,
            "of": module,
            "body": value.body if isinstance(value, ModuleOutput) else None,
            "base": value.base,
            "mode": _mode(value.mode),
        }
    if isinstance(value, Phi):
        return {"of": value.parents, "carried": value.is_loop}
    if isinstance(value, Container):
        return {"bounded": value.bounded, "grown": value.grown}
    if isinstance(value, (Module, Optimizer)):
        return {"class": value.name, "local": value.info is not None}
    if isinstance(value, Instance):
        return {"class": value.info.name}
    if isinstance(value, Parameters):
        return {"of": value.parents}
    return {"mode": value.mode.value} if isinstance(value, Context) else {}


def _mode(mode: GradMode) -> str:
    return "" if mode is GradMode.ON else mode.value
