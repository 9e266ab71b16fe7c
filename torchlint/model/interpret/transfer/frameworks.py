"""Methods of Lightning, Fabric, Accelerate and DeepSpeed that pass on, clip and run."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, MethodHandler, called_attribute
from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Clip
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Container,
    Dict,
    External,
    List,
    Module,
    Optimizer,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import naming, table
from torchlint.pytorch.effects import Clips
from torchlint.syntax.python_ast import site_of

_OF_MODEL = frozenset("train eval parameters named_parameters modules named_modules".split())
"""Methods of an engine that belong to its model."""


class Frameworks(Part):
    """Calls methods of the frameworks that train for the program."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._configured: dict[ClassInfo, Value | None] = {}

    def handlers(self) -> dict[str, MethodHandler]:
        """Methods of frameworks, by name."""
        return {
            **dict.fromkeys(table.methods_with(Clips), self._clip),
            "prepare": self._prepare, "setup": self._prepare,
            "optimizers": self._optimizers, "lr_schedulers": self._schedulers,
        }  # fmt: skip

    def model_of(self, receiver: Value, name: str) -> Value:
        """The model an engine was built from, for the model's methods; else the receiver."""
        model = receiver.part("model") if is_kind(receiver, Kind.ENGINE) and name in _OF_MODEL else None
        return resolved(model) if model is not None else receiver

    def _clip(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`self.clip_gradients(optimizer, ...)`, `accelerator.clip_grad_norm_(parameters, ...)`."""
        owner = "Fabric" if called_attribute(node) == "clip_gradients" else "Accelerator"
        if isinstance(receiver, Module) and owner == "Fabric":
            owner = "LightningModule"
        elif not is_engine(receiver):
            return None
        api = table.method(f"{owner}.{called_attribute(node)}")
        bound, effect = arguments.bind(api.parameters, receiver), next(e for e in api.effects if isinstance(e, Clips))
        self.state.emit(Clip(site_of(node), bound.get(effect.gradients_of), bound.get(effect.bound)))
        return Plain(node)

    def _prepare(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`accelerator.prepare(model, optimizer)` and `fabric.setup(...)` return their arguments."""
        if isinstance(receiver, (Tensor, Container, External)) or not arguments.positional:
            return None
        if isinstance(receiver, Unknown) and not is_engine(receiver):
            return None
        if len(arguments.positional) == 1:
            return arguments.positional[0]
        return self.state.stamp(Tuple(node, tuple(arguments.positional)))

    # -- Lightning --------------------------------------------------------------------------------------

    def _optimizers(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`self.optimizers()`: the optimizers that `configure_optimizers` returns."""
        configured = self._configuration(receiver)
        found = [part for item in _first_of_pair(configured, 0) if (part := _member(item, "optimizer")) is not None]
        if not found or not all(isinstance(item, Optimizer) for item in found):
            return None
        return found[0] if len(found) == 1 else self.state.stamp(List(node, tuple(found)))

    def _schedulers(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`self.lr_schedulers()`: the schedulers that `configure_optimizers` returns."""
        configured = self._configuration(receiver)
        members = (_member(item, "lr_scheduler") for item in _first_of_pair(configured, 1))
        found = [part for item in members if item is not None and (part := _member(item, "scheduler")) is not None]
        if not found or not all(is_kind(item, Kind.SCHEDULER) for item in found):
            return None
        return found[0] if len(found) == 1 else self.state.stamp(List(node, tuple(found)))

    def _configuration(self, receiver: Value) -> Value | None:
        """The return value of a module's `configure_optimizers`, interpreted once; None if that is not known."""
        info = receiver.info if isinstance(receiver, Module) else None
        method = info.method("configure_optimizers") if info is not None else None
        if info is None or method is None:
            return None
        if info not in self._configured:
            self._configured[info] = None
            if self.state.can_inline(method):
                with self.machine.aside(method, self.machine.template(info)) as (frame, _):
                    self._configured[info] = frame.returns[0] if len(frame.returns) == 1 else None
        return self._configured[info]


def is_engine(value: Value) -> bool:
    """Whether a value is an accelerator, a fabric or an engine, or has such a name."""
    return isinstance(value, Unknown) and (is_kind(value, Kind.ENGINE) or bool(naming.ENGINE.search(value.label)))


def _first_of_pair(configured: Value | None, place: int) -> list[Value]:
    """The items in one place of the pair that `configure_optimizers` returns; all items if it is not a pair."""
    value = resolved(configured) if configured is not None else None
    if not isinstance(value, (Tuple, List)):
        return [value] if value is not None else []
    lists = [resolved(item) for item in value.parents]
    if len(lists) == 2 and isinstance(lists[0], (Tuple, List)):
        inside = lists[place]
        return [resolved(item) for item in inside.parents] if isinstance(inside, Container) else []
    return lists


def _member(item: Value, key: str) -> Value | None:
    """An entry of a dictionary that describes an optimizer or a scheduler; otherwise the value itself."""
    if not isinstance(item, Container):
        return item
    found = item.part(key) if isinstance(item, Dict) else None
    return resolved(found) if found is not None else None
