"""Accumulating values: `total += loss`, `total = torch.lerp(total, loss, 0.1)`, `total.add_(loss)`, dict entries."""

from __future__ import annotations

import ast

from torchlint.model.events import Keep, Keeping
from torchlint.model.interpret.expressions.subscripts import Subscripts
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import Elements, key_of
from torchlint.model.values import Container, Element, Phi, Plain, Tensor, Value, inputs_of, is_none, resolved
from torchlint.pytorch import api
from torchlint.pytorch.api import ACCUMULATING
from torchlint.pytorch.autograd_table import INPLACE
from torchlint.pytorch.operators import DATA, DETACH
from torchlint.syntax.python_ast import dotted, names_read, site_of, without_calls


class Sums(Part):
    """Records the values that sums, means and lists keep."""

    def __init__(self, machine: Machine, elements: Elements, subscripts: Subscripts) -> None:
        super().__init__(machine)
        self.elements = elements
        self.subscripts = subscripts

    def add(self, node: ast.AugAssign, old: Value, value: Value) -> None:
        """`total += loss`: the value is kept in the sum, or in the container it is a slot of."""
        if self._is_array(node.target, old):
            return
        owner, is_local = self._slot_owner(node.target, old), self._is_local(node.target)
        self.state.emit(Keep(site_of(node), owner, value, Keeping.ADD, dotted(node.target), is_local))

    def _is_array(self, target: ast.expr, old: Value) -> bool:
        """Whether a sum is an array of NumPy or its element. Such arrays contain numbers, unless they store objects."""
        whole = target
        while isinstance(whole, ast.Subscript):
            whole = whole.value
        value = old if whole is target else self.machine.value(whole)
        made = [self.observations.numbers.get(item) for item in inputs_of(value) if isinstance(item, Plain)]
        return any(
            found is not None and api.gives_array(found[0]) and not any(map(_is_object, found[1])) for found in made
        )

    def _slot_owner(self, target: ast.expr, old: Value) -> Value:
        """The owner of a sum: the sum itself, or the container it is a slot of."""
        if isinstance(target, ast.Subscript):
            owner = resolved(self.machine.value(target.value))
            if isinstance(owner, Container):
                return owner
        return old

    def change(self, node: ast.Call, target: ast.expr, changed: Value, term: Value) -> None:
        """`total.mul_(0.9).add_(loss)`: the value is kept in the first operand."""
        while isinstance(changed, Tensor) and changed.base is not None:
            if changed.op in (DATA, DETACH):
                return  # their operand keeps no graph
            changed = changed.base
        first = changed_first(target)
        if target_text(first):
            text, is_local = target_text(first), self._is_local(first)
            self.state.emit(Keep(site_of(node), changed, term, Keeping.ADD, text, is_local))

    def go_on(self, node: ast.Assign, target: ast.expr, source: ast.expr, value: Value) -> None:
        """`total = total + loss` and similar: the new value is arithmetic on the old one."""
        if isinstance(source, ast.IfExp):  # loss if mean is None else 0.9 * mean + 0.1 * loss
            if isinstance(value, Phi) and value.site == site_of(source):
                for arm, item in zip((source.body, source.orelse), value.parents, strict=True):
                    self.go_on(node, target, arm, item)
            return
        adds = isinstance(value, Tensor) and value.op in ACCUMULATING
        joins = isinstance(value, Container) and isinstance(source, ast.BinOp)
        if isinstance(target, ast.Subscript) and adds:
            self._in_slot(node, target, value)
        text = target_text(target) if adds or joins else ""
        if not text or text not in names_read(source):
            return
        old = self.machine.read(target.id, target) if isinstance(target, ast.Name) else self.machine.value(target)
        if is_none(old):
            return  # no sum of None: that would raise
        if isinstance(target, ast.Name) and isinstance(old, Element):
            return  # y = rewards[i]; y = y + value: a new tensor, not the stored one
        for term in value.elements() if isinstance(value, Container) else _terms(value, old):
            self.state.emit(
                Keep(site_of(node), old, term, Keeping.ADD if adds else Keeping.APPEND, text, self._is_local(target))
            )

    def _is_local(self, target: ast.expr) -> bool:
        """Whether a target is a variable of a running call."""
        frame = self.state.frame
        return frame.called and isinstance(target, ast.Name) and target.id not in frame.outer_names

    def _in_slot(self, node: ast.Assign, target: ast.Subscript, value: Value) -> None:
        """`totals["loss"] = totals.get("loss", 0) + loss`."""
        owner, key = resolved(self.machine.value(target.value)), key_of(self.subscripts.index(target))
        if not isinstance(owner, Container) or key is None:
            return
        old = self.elements.lookup(owner, key, target)
        if _reaches(value, old):
            for term in _terms(value, old):
                self.state.emit(Keep(site_of(node), owner, term, Keeping.ADD, dotted(target.value)))


def _is_object(value: Value) -> bool:
    """Whether an argument is the element type of any objects: `dtype=object`."""
    return value.label in ("object", "numpy.object_") or (
        isinstance(value, Plain) and value.constant in ("O", "object")
    )


def changed_first(target: ast.expr) -> ast.expr:
    """The first operand of a chain of in-place changes: `v` of `v.mul_(0.9).add_(g)`."""
    return without_calls(target, INPLACE)


def target_text(node: ast.expr) -> str:
    """The dotted text of an assignment target, or an empty string."""
    return dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _terms(value: Value, old: Value) -> list[Value]:
    """The values an accumulating expression adds to the old value."""
    if value is old or isinstance(value, Plain):
        return []
    if isinstance(value, Tensor) and value.op in ACCUMULATING and _reaches(value, old):
        return [term for parent in value.parents for term in _terms(parent, old)]
    if isinstance(value, Container) and old in value.parents:
        return [item for item in value.parents if item is not old]
    return [value]


def _reaches(value: Value, old: Value) -> bool:
    return any(
        parent is old or _reaches(parent, old)
        for parent in value.parents
        if isinstance(parent, (Tensor, Container)) or parent is old
    )
