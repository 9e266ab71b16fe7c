"""Assignment statements: the names they bind, the values they change in place, and the values they keep."""

from __future__ import annotations

import ast

from torchlint.model.events import Keep, Keeping
from torchlint.model.heap import Change
from torchlint.model.interpret.expressions.expressions import Expressions
from torchlint.model.interpret.expressions.subscripts import is_basic
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import key_of
from torchlint.model.interpret.transfer.tensors import operator_of, overloads
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.values import (
    Component,
    Container,
    Deque,
    Dict,
    List,
    Module,
    ModuleOutput,
    Phi,
    Set,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.syntax.python_ast import dotted, site_of

_LISTS = (List, Deque, Set, Dict)


class Assignments(Part):
    """Interprets assignment statements."""

    def __init__(self, machine: Machine, transfer: Transfer, expressions: Expressions) -> None:
        super().__init__(machine)
        self.tensors = transfer.tensors
        self.elements = transfer.elements
        self.subscripts = expressions.subscripts
        self.sums = expressions.sums
        self.targets = expressions.targets
        self.updates = expressions.updates

    def assign(self, node: ast.Assign) -> None:
        """`target = value`."""
        value = self.machine.value(node.value)
        for target in node.targets:
            self.sums.go_on(node, target, node.value, value)
            self.updates.step_if_update(node, target, (value,))
            self.targets.assign(target, value)

    def annotated(self, node: ast.AnnAssign) -> None:
        """`target: type = value`."""
        if node.value is not None:
            self.targets.assign(node.target, self.machine.value(node.value))

    def augmented(self, node: ast.AugAssign) -> None:
        """`target += value`."""
        old = self.machine.value(node.target)
        value = self.machine.value(node.value)
        op = operator_of(node.op)
        self.updates.step_if_update(node, node.target, (value,), in_place=True)
        plain_old = resolved(old)
        if self.tensors.is_gradient(plain_old):
            self.tensors.change_gradient(plain_old, op, (value,), node)
            return
        if isinstance(plain_old, _LISTS):
            inner = resolved(value)
            added = inner.elements() if isinstance(inner, Container) else [self.elements.iterate(inner, node)]
            for item in added:
                plain_old.add(item)
                self.state.change(plain_old, Change.PUT, node, item)
                self.state.emit(Keep(site_of(node), plain_old, item, Keeping.APPEND, dotted(node.target)))
            return
        if overloads(plain_old, op):
            self.targets.assign(node.target, plain_old)
            return
        if isinstance(plain_old, Module) and op == "add":
            plain_old.used_as("extend")  # an `nn.ModuleList` remains the same object
            return
        if op in ("add", "sub"):
            self.sums.add(node, old, value)
        if isinstance(plain_old, (Tensor, Unknown, Phi)) and not self._is_uncertain_slot(node.target):
            result = self.updates.mutate(node, node.target, self._changed_by(node.target, old), op, (value,))
        else:
            result = self.tensors.operate(op, old, value, node)
            self.targets.assign(node.target, result)

    def _changed_by(self, target: ast.expr, old: Value) -> Value:
        """The value an augmented assignment changes: for `weight[rows] += 1` the whole weight, not the copy."""
        if isinstance(target, ast.Subscript) and isinstance(old, Tensor) and old.base is None:
            owner = resolved(self.machine.value(target.value))
            return owner if isinstance(owner, Tensor) and old.parents[:1] == (owner,) else old
        return old

    def _is_uncertain_slot(self, target: ast.expr) -> bool:
        """`values[key] += 1` on an unknown element of a container, or of a module's output that may be a dictionary."""
        if not isinstance(target, ast.Subscript):
            return False
        owner = resolved(self.machine.value(target.value))
        if isinstance(owner, Container):
            index = self.subscripts.index(target)
            return key_of(index) is None and self.state.stored_at(owner, index) is None
        return isinstance(owner, (ModuleOutput, Component)) and not is_basic(target)
