"""Subscripts: elements by the expression in the brackets."""

from __future__ import annotations

import ast

from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import SOME, Elements, key_of
from torchlint.model.kinds import note_index
from torchlint.model.values import Container, Dict, List, Module, Tensor, Tuple, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import site_of


class Subscripts(Part):
    """Evaluates subscripts."""

    def __init__(self, machine: Machine, elements: Elements) -> None:
        super().__init__(machine)
        self.elements = elements

    def evaluate(self, node: ast.Subscript) -> Value:
        """The value of `owner[index]`."""
        value = self.machine.value(node.value)
        index = self.index(node, value)
        basic = is_basic(node)
        carried = self.elements.of_carried(
            value, lambda owner: self.elements.lookup(owner, key_of(index), node, basic=basic), node
        )
        if carried is not None:
            return carried
        owner = resolved(value)
        if isinstance(owner, Module) and any(isinstance(item, ast.Slice) for item in indices_of(node)):
            part = self.state.stamp(Module(node, owner.name, owner.parents, owner.info))
            part.used_as("[:]")
            return part
        if isinstance(owner, Tensor) and type(key_of(index)) is int:
            self.observations.indexed.append((site_of(node), owner))
        if isinstance(owner, Container) and (cut := _slice_of(owner, node.slice)) is not None:
            return self.state.stamp(type(owner)(node, cut))
        stored = self.state.stored_at(owner, index)
        if stored is not None:
            return stored
        key = key_of(index)
        if key is None and index is not None and isinstance(owner, Dict):
            key = SOME
        found = self.elements.lookup(owner, key, node, basic=basic)
        if isinstance(found, Tensor) and found.op == operators.GETITEM and found.parents == (owner,):
            found.parents, found.base = (value,), value if found.base is owner else found.base
        return found

    def index(self, node: ast.Subscript, owner: Value | None = None) -> Value | None:
        """The index in the brackets, unless it is a slice or there are several; evaluates them all.

        Records the tensors that index a tensor, the `owner`.
        """
        found: list[Value] = []
        indices = indices_of(node)
        for item in indices:
            if not isinstance(item, ast.Slice):
                found.append(self.machine.value(item))
                continue
            for part in (item.lower, item.upper, item.step):
                if part is not None:
                    self.machine.value(part)
        whole = resolved(owner) if owner is not None else None
        if isinstance(whole, Tensor):
            for index in found:
                note_index(index)
            tensors = [item for item in map(resolved, found) if isinstance(item, Tensor)]
            self.observations.masked += ((site_of(node), whole, item) for item in tensors)
        return found[0] if len(found) == len(indices) == 1 else None


def _slice_of(owner: Container, index: ast.expr) -> tuple[Value, ...] | None:
    """The elements of a tuple or list in a slice between literal numbers; None if they are not known."""
    if not isinstance(index, ast.Slice) or not isinstance(owner, (List, Tuple)) or owner.grown or owner.unsure:
        return None
    try:
        bounds = (None if part is None else ast.literal_eval(part) for part in (index.lower, index.upper, index.step))
        return owner.parents[slice(*bounds)]
    except (ValueError, TypeError):
        return None


def indices_of(node: ast.Subscript) -> list[ast.expr]:
    """The indices in the brackets: one, or several that commas separate."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def is_basic(node: ast.Subscript) -> bool:
    """Whether indexing gives a view: only slices and literal numbers, no masks or index tensors."""
    return all(
        isinstance(item, (ast.Slice, ast.UnaryOp))
        or (isinstance(item, ast.Constant) and (item.value is ... or type(item.value) is int))
        for item in indices_of(node)
    )
