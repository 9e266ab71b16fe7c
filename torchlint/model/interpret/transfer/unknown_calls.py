"""Calls of functions that the program does not define, or whose calls are not followed."""

from __future__ import annotations

import ast

from torchlint.model.events import Call, MayClear
from torchlint.model.heap import Change
from torchlint.model.interpret.machine import Part
from torchlint.model.interpret.transfer.alternatives import alternatives
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    FILLED,
    CallResult,
    Container,
    External,
    Function,
    Generator,
    Module,
    Phi,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    UnknownObject,
    Value,
    inputs_of,
    owner_label,
    resolved,
)
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import site_of

_LOGGING = frozenset({"log", "log_dict", "print"})
"""Methods of Lightning's modules that leave the module as it is."""


class UnknownCalls(Part):
    """Creates the results of such calls, and records their possible effects."""

    def call(self, callee: Value, name: str, handed: tuple[Value, ...], node: ast.Call) -> Value:
        """The result of a call that this module does not define: it may have any effect on its arguments."""
        kind = UnknownObject if naming.is_class_name(name) else CallResult
        result = self.state.stamp(kind(node, handed, "", callee, self.state.mode))
        for item in (part for value in handed for part in inputs_of(value)):
            if isinstance(item, Container) and not isinstance(item, (Tuple, Generator)):
                item.used_as(FILLED)
        self.state.emit(Call(site_of(node), result))
        objects = tuple(item for item in handed if not isinstance(resolved(item), (Plain, Tensor, External, Function)))
        is_method = isinstance(node.func, ast.Attribute) and not isinstance(callee, External)
        if objects and not self._is_bystander(handed[0], node):
            self.state.emit(MayClear(site_of(node), name, objects, handed[0] if is_method else None))
        if objects and not isinstance(callee, External):
            keeps_receiver = is_method and (not self._is_statement(node) or _only_logs(handed[0], name))
            self._forget(objects[1:] if keeps_receiver else objects, name, node)
        return result

    def _forget(self, objects: tuple[Value, ...], name: str, node: ast.Call) -> None:
        """Forget the attributes of objects that the call receives."""
        for item in (part for value in objects for part in inputs_of(value)):
            self.state.change(item, Change.UNKNOWN, node, by=name)

    def _is_statement(self, node: ast.Call) -> bool:
        """Whether a call is a statement of its own: a command that may change its receiver, not a query."""
        return self.definitions.tree.stands_alone(node)

    def _is_bystander(self, first: Value, node: ast.Call) -> bool:
        """Whether it is a method of a logger, meter, scheduler or accelerator: none of them clears gradients."""
        if not isinstance(node.func, ast.Attribute):
            return False
        owner = resolved(first)
        if isinstance(owner, Phi):
            owners = alternatives(owner)
            return bool(owners) and all(self._is_bystander(item, node) for item in owners)
        if is_kind(owner, Kind.ENGINE, Kind.SCALER, Kind.SCHEDULER):
            return True
        label = owner_label(owner)
        return isinstance(owner, Unknown) and bool(naming.BYSTANDER.search(label) or naming.ENGINE.search(label))


def _only_logs(receiver: Value, name: str) -> bool:
    """Whether a module inherits a method that reports values: `self.log("loss", loss)`."""
    return name in _LOGGING and isinstance(resolved(receiver), Module)
