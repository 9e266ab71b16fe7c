"""Assignments: what they bind, change in place, keep and update."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.model.evaluate.arguments import is_true
from torchlint.model.evaluate.elements import key_of
from torchlint.model.evaluate.part import Part
from torchlint.model.evaluate.sums import changed_first
from torchlint.model.evaluate.tensors import operator_of, overloads
from torchlint.model.events import Clear, Keep, Keeping, MayClear, Mutate, Step
from torchlint.model.kinds import note_tensor
from torchlint.model.lineage import ancestry
from torchlint.model.values import (
    CallResult,
    Component,
    Container,
    Deque,
    Dict,
    Element,
    Function,
    Generator,
    Gradient,
    List,
    Module,
    ModuleOutput,
    Optimizer,
    Phi,
    Plain,
    Set,
    Tensor,
    Unknown,
    Value,
    class_of,
    inputs_of,
    meanings,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch.api import GRADIENTS
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import called_name, dotted, site_of, written_alike

_LISTS = (List, Deque, Set, Dict)


class Assignments(Part):
    """Interprets assignment statements."""

    def assign(self, node: ast.Assign) -> None:
        """`target = value`."""
        value = self.expressions.value(node.value)
        for target in node.targets:
            self.sums.go_on(node, target, node.value, value)
            self.step_if_update(node, target, (value,))
            self.assign_target(target, value)

    def annotated(self, node: ast.AnnAssign) -> None:
        """`target: type = value`."""
        if node.value is not None:
            self.assign_target(node.target, self.expressions.value(node.value))

    def augmented(self, node: ast.AugAssign) -> None:
        """`target += value`."""
        old = self.expressions.value(node.target)
        value = self.expressions.value(node.value)
        op = operator_of(node.op)
        self.step_if_update(node, node.target, (value,), in_place=True)
        plain_old = resolved(old)
        if self.tensors.is_gradient(plain_old):
            self.tensors.change_gradient(plain_old, op, (value,), node)
            return
        if isinstance(plain_old, _LISTS):
            inner = resolved(value)
            added = inner.elements() if isinstance(inner, Container) else [self.elements.iterate(inner, node)]
            for item in added:
                plain_old.add(item)
                self.state.emit(Keep(site_of(node), plain_old, item, Keeping.APPEND, dotted(node.target)))
            return
        if overloads(plain_old, op):
            self.assign_target(node.target, plain_old)
            return
        if isinstance(plain_old, Module) and op == "add":
            plain_old.used_as("extend")  # an `nn.ModuleList` stays the one that it is
            return
        if op in ("add", "sub"):
            self.sums.add(node, old, value)
        if isinstance(plain_old, (Tensor, Unknown, Phi)) and not self._is_uncertain_slot(node.target):
            result = self.mutate(node, node.target, self._changed_by(node.target, old), op, (value,))
        else:
            result = self.tensors.operate(op, old, value, node)
            self.assign_target(node.target, result)

    def assign_target(self, target: ast.expr, value: Value) -> None:
        """Bind a target to a value."""
        if isinstance(target, ast.Name):
            self.state.bind(target.id, value)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Subscript):
            self._assign_element(target, value)

    def _assign_attribute(self, target: ast.Attribute, value: Value) -> None:
        owner = resolved(self.expressions.value(target.value))
        self.observations.attribute_owners[site_of(target)] = owner
        if target.attr == "requires_grad" and is_true(value):
            if not isinstance(owner, Module):  # to which it means nothing
                self._rebind_leaf(target.value, owner)
            return
        self.set_attribute(owner, target.attr, value, target)
        if target.attr in (*GRADIENTS, "data", "requires_grad"):
            return
        if isinstance(owner, Module) and dotted(target.value) != "self" and _may_change(owner, resolved(value)):
            owner.used_as("__setattr__")

    def set_attribute(self, owner: Value, name: str, value: Value, node: ast.AST) -> None:
        """An attribute is set, by a statement or by `setattr`."""
        if name in GRADIENTS:
            self.clear_gradient(node, owner)
        elif name == "data":
            if self.tensors.is_gradient(owner):
                self.clear_gradient(node, resolved(owner.parents[0]))
        elif name == "requires_grad":
            if not is_true(value):
                self.observations.frozen.add(owner)
        else:
            if self._has_setter(owner, name):
                self.state.emit(MayClear(site_of(node), name, (owner, value)))
                value = self.state.stamp(CallResult(node, (value,), name))
            self.state.name_value(value, name)
            if isinstance(value, Plain) and not value.order:
                self.state.stamp(value)
            self.state.heap[owner, name] = value

    def _has_setter(self, owner: Value, name: str) -> bool:
        """Whether the class of an object says what is done when an attribute is set: by a property, or altogether."""
        info = class_of(owner)
        if info is None:
            return False
        method = info.method(name)
        return info.method("__setattr__") is not None or (
            method is not None and any(dotted(item) == f"{name}.setter" for item in method.decorators)
        )

    def set_some_attribute(self, owner: Value, node: ast.AST) -> None:
        """`setattr(owner, name, value)`, nobody knows of which: any list may begin anew, any tensor be another."""
        for (holder, name), value in list(self.state.heap.items()):
            if holder is owner and isinstance(resolved(value), (Container, Tensor, Phi)):
                self.state.heap[owner, name] = self.state.stamp(CallResult(node, (), name))

    def clear_gradient(self, node: ast.AST, owner: Value) -> None:
        """The gradient of one tensor is set, or deleted."""
        self.state.emit(Clear(site_of(node), None, explicit=False, of=owner))

    def _rebind_leaf(self, target: ast.expr, owner: Value) -> None:
        leaf = self.tensors.new_leaf(target, (owner,), owner)
        self.observations.unfrozen.append(leaf)
        if isinstance(target, (ast.Name, ast.Attribute)):
            self.assign_target(target, leaf)

    def _unpack(self, targets: Sequence[ast.expr], value: Value) -> None:
        value = resolved(value)
        starred = any(isinstance(item, ast.Starred) for item in targets)
        for index, item in enumerate(targets):
            target = item.value if isinstance(item, ast.Starred) else item
            if isinstance(item, ast.Starred) or (starred and isinstance(value, Container)):
                self.assign_target(target, self.state.stamp(Element(target, (value,))))
            else:
                self.assign_target(target, self._unpacked(value, index, target))

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
        carried = self.expressions.value(target.value)
        owner = resolved(carried)
        if isinstance(owner, Module):
            owner.used_as("__setitem__")
        index = self.elements.index(target, owner)
        key = key_of(index)
        if isinstance(owner, Container):
            self.state.store(owner, index if key is None else None, value, target)
            is_empty = isinstance(value, Container) and not value.elements()
            if is_empty and self._is_put_once(target):
                self.containers.put_once(owner, key, value)
            elif key is not None:
                old = owner.part(key)
                owner.set_part(key, value)
                if is_empty and isinstance(old, Container):
                    self.state.emit(Keep(site_of(target), old, Plain(target), Keeping.CLEAR, dotted(target.value)))
            elif self._overwrites_all(target):
                owner.parents = (value,)
                for name in owner.known_parts:
                    owner.set_part(name, value)
            else:
                owner.add(value)
                name = dotted(target.value)
                emptied = Keep(site_of(target), owner, Plain(target), Keeping.CLEAR, name)
                self.state.emit(emptied if is_empty else Keep(site_of(target), owner, value, Keeping.SLOT, name))
        elif isinstance(key, str):  # no tensor has such an element, but a module's output may be a dictionary
            self.state.heap[owner, f"[{key!r}]"] = value
        elif self.tensors.is_gradient(owner) and _is_all(target):
            self.tensors.change_gradient(owner, "copy_", (value,), target)
        elif _are_tensors(owner) or isinstance(owner, Gradient):
            note_tensor(carried)
            self.mutate(target, target.value, carried, operators.SETITEM, (value,))
        elif key is not None:
            self.state.heap[owner, f"[{key!r}]"] = value

    def _is_put_once(self, target: ast.Subscript) -> bool:
        """Whether `owner[key] = ...` stands under `if key not in owner:`."""
        tree = self.definitions.tree
        statement = tree.statement(target)
        branch = tree.parent(statement)
        test = branch.test if isinstance(branch, ast.If) and statement in branch.body else None
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.NotIn) or len(test.ops) > 1:
            return False
        return written_alike(test.left, target.slice) and written_alike(test.comparators[0], target.value)

    def _overwrites_all(self, target: ast.Subscript) -> bool:
        """Whether each element is assigned to in turn: `values[i] = ...`, for `i, x in enumerate(values)`, or an entry,
        for `name, x in entries.items()`."""
        tree = self.definitions.tree
        loop = tree.parent(tree.statement(target))
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
            return False
        found = _counted(loop.target, loop.iter)
        if found is None:
            return False
        counter, counted = found
        return written_alike(counter, target.slice) and written_alike(counted, target.value)

    def _changed_by(self, target: ast.expr, old: Value) -> Value:
        """What an augmented assignment changes: of `weight[rows] += 1`, which takes a copy out, the whole weight."""
        if isinstance(target, ast.Subscript) and isinstance(old, Tensor) and old.base is None:
            owner = resolved(self.expressions.value(target.value))
            return owner if isinstance(owner, Tensor) and old.parents[:1] == (owner,) else old
        return old

    def _is_uncertain_slot(self, target: ast.expr) -> bool:
        """`values[key] += 1`: which element of a container, or of a module's output that may be a dictionary?"""
        if not isinstance(target, ast.Subscript):
            return False
        owner = resolved(self.expressions.value(target.value))
        if isinstance(owner, Container):
            index = self.elements.index(target)
            return key_of(index) is None and self.state.stored_at(owner, index) is None
        return isinstance(owner, (ModuleOutput, Component)) and not self.elements.is_basic(target)

    def mutate(
        self,
        node: ast.AST,
        target: ast.expr | None,
        old: Value,
        how: str,
        by: tuple[Value, ...],
    ) -> Value:
        """Record that `old` is changed in place, and bind the target to its new value."""
        result = self.tensors.make(how, (old, *by), node, base=old)
        self.state.emit(Mutate(site_of(node), old, how, result, by))
        target = changed_first(target)
        if isinstance(target, (ast.Name, ast.Attribute)):
            if isinstance(target, ast.Attribute) and target.attr in ("data", "grad"):
                return result
            self.assign_target(target, result)
        elif isinstance(target, ast.Subscript):
            owner, key = resolved(self.expressions.value(target.value)), key_of(self.elements.index(target))
            if isinstance(owner, Container) and key is not None:
                owner.set_part(key, result)
            whole = target.value
            while isinstance(whole, ast.Subscript):
                whole = whole.value
            if (
                isinstance(whole, ast.Name)
                and isinstance(old, Tensor)
                and (old.base is not None or old.op == operators.GETITEM)
                and isinstance(resolved(self.names.lookup(whole.id)), Tensor)
            ):
                self.state.bind(whole.id, result)
        return result

    def step_if_update(self, node: ast.AST, target: ast.expr, by: tuple[Value, ...], *, in_place: bool = False) -> None:
        """`p.data -= lr * p.grad`, `p.data.add_(p.grad, alpha=-lr)`, `w -= lr * w.grad` without gradients: an update
        by hand."""
        through_data = isinstance(target, ast.Attribute) and target.attr == "data"
        base = target.value if isinstance(target, ast.Attribute) and through_data else target
        name = dotted(base)
        if not name or not (through_data or (in_place and self.state.mode is not GradMode.ON)):
            return
        owner = resolved(self.expressions.value(base))
        gradient = owner.part("grad")
        if gradient is not None and gradient in ancestry(by):
            self.state.emit(Step(site_of(node), owner, name, manual=True))


def _may_change(module: Module, given: Value) -> bool:
    """Whether a module may do something else with an attribute that it is given: not with its own, changed in place."""
    if module.info is not None:
        return isinstance(given, (Module, Function))
    return not isinstance(given, Tensor) or given.leaf


def _is_unnamed_comprehension(value: Value) -> bool:
    """Whether a value is what `a, b = (make(x) for x in given)` takes apart, and nothing else is made of it."""
    is_comprehension = value.site is not None and value.site.is_of(ast.GeneratorExp, ast.ListComp)
    return isinstance(value, Container) and is_comprehension and not value.label


def _are_tensors(owner: Value) -> bool:
    """Whether a value is a tensor, or one of several: `outputs = outputs.cuda()` under a condition."""
    return all(isinstance(item, Tensor) for item in inputs_of(owner))


def _counted(target: ast.expr, iterated: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The index or key that a loop counts through, and what it is one of."""
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


def _is_all(target: ast.Subscript) -> bool:
    """`x[:]`, `x[...]`."""
    index = target.slice
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and index.value is ...
