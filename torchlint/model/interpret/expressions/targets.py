"""Targets of assignments: names, attributes, elements, and tuples of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.model.arguments import is_true
from torchlint.model.events import Keep, Keeping
from torchlint.model.heap import Change
from torchlint.model.interpret.expressions.subscripts import Subscripts
from torchlint.model.interpret.expressions.updates import Updates
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import key_of
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.kinds import note_tensor
from torchlint.model.values import (
    CallResult,
    Container,
    Element,
    Function,
    Generator,
    Gradient,
    List,
    Module,
    Optimizer,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    meanings,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch.api import GRADIENTS
from torchlint.syntax.python_ast import called_name, dotted, site_of, written_alike


class Targets(Part):
    """Binds targets."""

    def __init__(self, machine: Machine, transfer: Transfer, subscripts: Subscripts, updates: Updates) -> None:
        super().__init__(machine)
        self.tensors = transfer.tensors
        self.attributes = transfer.attributes
        self.elements = transfer.elements
        self.containers = transfer.containers
        self.subscripts = subscripts
        self.updates = updates

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target to a value; a name bound to None where its import fails still means the import."""
        if target in self.definitions.scopes.stand_ins:
            return
        if self.state.position.loops and isinstance(target, (ast.Name, ast.Attribute)) and _is_object(value):
            self.observations.bound_in_loops.append((site_of(target), value, self.state.position.loops))
        if isinstance(target, ast.Name):
            self.state.bind(target.id, value)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Subscript):
            self._assign_element(target, value)

    def _assign_attribute(self, target: ast.Attribute, value: Value) -> None:
        owner = resolved(self.machine.value(target.value))
        self.observations.attribute_owners[site_of(target)] = owner
        if target.attr == "requires_grad" and is_true(value):
            if not isinstance(owner, Module):  # for which it has no meaning
                self._rebind_leaf(target.value, owner)
            return
        self.attributes.set(owner, target.attr, value, target)
        if target.attr in (*GRADIENTS, "data", "requires_grad"):
            return
        if isinstance(owner, Module) and dotted(target.value) != "self" and _may_change(owner, resolved(value)):
            owner.used_as("__setattr__")

    def _rebind_leaf(self, target: ast.expr, owner: Value) -> None:
        leaf = self.tensors.new_leaf(target, (owner,), owner)
        self.observations.unfrozen.append(leaf)
        if isinstance(target, (ast.Name, ast.Attribute)):
            self.assign(target, leaf)

    def _unpack(self, targets: Sequence[ast.expr], value: Value) -> None:
        value = resolved(value)
        starred = any(isinstance(item, ast.Starred) for item in targets)
        for index, item in enumerate(targets):
            target = item.value if isinstance(item, ast.Starred) else item
            if isinstance(item, ast.Starred) or (starred and isinstance(value, Container)):
                self.assign(target, self.state.stamp(Element(target, (value,))))
            else:
                self.assign(target, self._unpacked(value, index, target))

    def _unpacked(self, value: Value, index: int, target: ast.AST) -> Value:
        if isinstance(value, Phi):
            inputs = list(meanings(value))
            if inputs and all(isinstance(item, (Container, Tensor)) for item in inputs) and not value.is_loop:
                return self.state.phi(target, [self.elements.lookup(item, index, target) for item in inputs])
        element = self.elements.lookup(value, index, target, basic=True)
        if isinstance(value, Generator) and isinstance(element, Tensor):
            return self.tensors.again(element, target)
        if _is_unnamed_comprehension(value) and isinstance(element, (Module, Optimizer)):
            return self.state.stamp(element.made_again(target))  # each with its own parameters
        return element

    def _assign_element(self, target: ast.Subscript, value: Value) -> None:
        carried = self.machine.value(target.value)
        owner = resolved(carried)
        if isinstance(owner, Module):
            owner.used_as("__setitem__")
        index = self.subscripts.index(target, owner)
        key = key_of(index)
        if isinstance(owner, (Module, Unknown)):
            self.attributes.note_place(owner, key, value, target)
        if isinstance(owner, CallResult):
            self.state.change(owner, Change.SET, target, value, "" if key is None else str(key))
        if isinstance(owner, Container):
            owner.unsure |= isinstance(owner, List) and isinstance(key, int)
            self.state.store(owner, index if key is None else None, value, target)
            is_empty = isinstance(value, Container) and not value.elements()
            is_put_once = is_empty and self._is_put_once(target)
            change = Change.PUT if is_put_once else Change.SET
            old = owner.part(key) if key is not None else None
            self.state.change(owner, change, target, value, "" if key is None else str(key), old)
            if is_put_once:
                self.containers.put_once(owner, key, value)
            elif key is not None:
                owner.set_part(key, value)
                if is_empty and isinstance(old, Container):
                    self.state.change(old, Change.EMPTIED, target)
                    self.state.emit(Keep(site_of(target), old, Plain(target), Keeping.CLEAR, dotted(target.value)))
            elif self._overwrites_all(target):
                owner.parents = (value,)
                self.state.change(owner, Change.EMPTIED, target)
                for name in owner.known_parts:
                    owner.set_part(name, value)
            elif not _is_moved_in(owner, value):
                owner.add(value)
                name = dotted(target.value)
                emptied = Keep(site_of(target), owner, Plain(target), Keeping.CLEAR, name)
                self.state.emit(emptied if is_empty else Keep(site_of(target), owner, value, Keeping.SLOT, name))
        elif isinstance(key, str):  # no tensor has such an element, but a module's output may be a dictionary
            self.state.heap[owner, f"[{key!r}]"] = value
            owner.used_as("__setitem__")
        elif self.tensors.is_gradient(owner) and _is_all(target):
            self.tensors.change_gradient(owner, "copy_", (value,), target)
        elif _are_tensors(owner) or isinstance(owner, Gradient):
            note_tensor(carried)
            self.updates.mutate(target, target.value, carried, operators.SETITEM, (value,))
        elif key is not None:
            self.state.heap[owner, f"[{key!r}]"] = value

    def _is_put_once(self, target: ast.Subscript) -> bool:
        """Whether `owner[key] = ...` is guarded by `if key not in owner:`."""
        tree = self.definitions.tree
        statement = tree.statement(target)
        branch = tree.parent(statement)
        test = branch.test if isinstance(branch, ast.If) and statement in branch.body else None
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.NotIn) or len(test.ops) > 1:
            return False
        return written_alike(test.left, target.slice) and written_alike(test.comparators[0], target.value)

    def _overwrites_all(self, target: ast.Subscript) -> bool:
        """Whether a loop assigns each element in turn.

        The loop is `for i, x in enumerate(values)` with `values[i] = ...`, or `for name, x in entries.items()` with
        an entry.
        """
        tree = self.definitions.tree
        loop = tree.parent(tree.statement(target))
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
            return False
        found = _counted(loop.target, loop.iter)
        if found is None:
            return False
        counter, counted = found
        return written_alike(counter, target.slice) and written_alike(counted, target.value)


def _may_change(module: Module, given: Value) -> bool:
    """Whether a module may process an attribute on assignment, except its own attribute after an in-place change."""
    if module.info is not None:
        return isinstance(given, (Module, Function))
    return not isinstance(given, Tensor) or given.leaf


def _is_moved_in(owner: Container, value: Value) -> bool:
    """Whether a list already holds a value, as in `items[i], items[j] = items[j], items[i]`."""
    if not isinstance(owner, List):
        return False
    held = {item for element in owner.elements() for item in inputs_of(element)}
    moved = list(inputs_of(value))
    return bool(moved) and all(item in held or (isinstance(item, Element) and owner in item.parents) for item in moved)


def _is_unnamed_comprehension(value: Value) -> bool:
    """Whether a value only exists to be unpacked: `a, b = (make(x) for x in given)`."""
    is_comprehension = value.site is not None and value.site.is_of(ast.GeneratorExp, ast.ListComp)
    return isinstance(value, Container) and is_comprehension and not value.label


def _are_tensors(owner: Value) -> bool:
    """Whether each possible value is a tensor: `outputs = outputs.cuda()` under a condition."""
    return all(isinstance(item, Tensor) for item in inputs_of(owner))


def _counted(target: ast.expr, iterated: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The index or key over which a loop counts, and the container it belongs to."""
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
    name, given = called_name(iterated), iterated.args
    if name in ("items", "keys") and isinstance(iterated.func, ast.Attribute) and not given:
        return first, iterated.func.value
    if len(given) != 1:
        return None
    if name == "enumerate":
        return first, given[0]
    is_length = isinstance(given[0], ast.Call) and called_name(given[0]) == "len" and len(given[0].args) == 1
    return (target, given[0].args[0]) if name == "range" and isinstance(given[0], ast.Call) and is_length else None


def _is_object(value: Value) -> bool:
    """Whether a value may be a module or another object with a state."""
    return isinstance(resolved(value), (Module, Unknown, Phi))


def _is_all(target: ast.Subscript) -> bool:
    """`x[:]`, `x[...]`."""
    index = target.slice
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and index.value is ...
