"""Expressions: which values they give, and what they save of others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from torchlint.triage.effects import Surroundings
from torchlint.triage.known import NOT_TENSORS, PRODUCTS, SHARING
from torchlint.triage.names import dotted
from torchlint.triage.values import HANDED, MADE, Maybe, Names, Value, either, present, tracked_most


class Expressions:
    """Reads expressions, and binds their values to names."""

    def __init__(self, surroundings: Surroundings, *, called: bool = False) -> None:
        """`called`: what the function is handed has graphs."""
        self.surroundings = surroundings
        self.called = called
        self.saved_changed = False
        self.leaf_changed = False
        self.changers: set[str] = set()
        """The functions that change in place what they are handed, or what objects hold."""
        self.handing: set[str] = set()
        """What is called with something that has a graph."""
        self._function = ""
        self._names: Names = {}
        self._without_grad = 0
        self._handed: list[Value] = []
        self._held: list[Value] = []
        self._returned: list[Value] = []

    def _change(self, target: Value, by: Iterable[Maybe] = ()) -> None:
        """Something is changed in place, by what may have a graph."""
        tracked = tracked_most(by)
        self.leaf_changed |= not self._without_grad and target.is_leaf()
        for value in target.storage():
            value.changed = True
            value.tracked = max(value.tracked, tracked)
            self.saved_changed |= value.saved
            if value.outer and self._function:
                self.changers.add(self._function)

    def _step(self, *amounts: ast.expr) -> None:
        """`p -= lr * p.grad`: what is changed by a gradient is a leaf."""
        uses = (item for amount in amounts for item in ast.walk(amount))
        if any(isinstance(item, ast.Attribute) and item.attr == "grad" for item in uses):
            self.leaf_changed |= not self._without_grad

    # -- names ------------------------------------------------------------------------------------------

    def _bind(self, target: ast.expr, value: Maybe, source: ast.expr | None = None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, source)
        elif isinstance(target, ast.Subscript):
            self._put(target, value)
        elif name := dotted(target):
            self._names[name] = value

    def _unpack(self, target: ast.Tuple | ast.List, value: Maybe, source: ast.expr | None) -> None:
        apart = isinstance(source, (ast.Tuple, ast.List)) and len(source.elts) == len(target.elts)
        for index, item in enumerate(target.elts):
            part = self._value(source.elts[index]) if apart else value  # type: ignore[union-attr]
            self._bind(item.value if isinstance(item, ast.Starred) else item, part)

    def _put(self, target: ast.Subscript, value: Maybe) -> None:
        owner = self._value(target.value)
        self._value(target.slice)
        if owner is None:
            return
        if owner.container:
            owner.bases += (value,) if value else ()
        elif not (isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)):
            self._change(owner, (value,))

    # -- expressions ------------------------------------------------------------------------------------

    def _value(self, node: ast.expr | None) -> Maybe:
        read = _EXPRESSIONS.get(type(node))
        if read is not None:
            return read(self, node)
        if node is not None and not isinstance(node, (ast.Constant, ast.JoinedStr)):
            self._parts(node)
        return None

    def _parts(self, node: ast.AST) -> None:
        """The expressions in a node of whose own value nothing is known."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)

    def _name(self, node: ast.Name) -> Maybe:
        if node.id not in self._names:
            self._names[node.id] = self._unbound(node.id, node.id)
        value = self._names[node.id]
        if value is not None and value.overwritten:
            self.saved_changed = True
        return value

    def _unbound(self, name: str, label: str) -> Value:
        """What comes from outside of the function."""
        value = Value(tracked=MADE * self.surroundings.is_parameter(name))
        value.leaf, value.outer, value.label = bool(value.tracked), True, label
        self._held.append(value)
        return value

    def _attribute(self, node: ast.Attribute) -> Maybe:
        name = dotted(node)
        if name in self._names:
            return self._names[name]
        if node.attr in NOT_TENSORS:
            return None
        if name.startswith("self.") or (self.surroundings.is_parameter(node.attr) and self._is_inner(node)):
            value = self._unbound(node.attr, name)
            if name:
                self._names[name] = value
            return value
        owner = self._value(node.value)
        if owner is None:
            return None
        return self._view(node.attr, owner) if node.attr in SHARING else Value(tracked=owner.tracked)

    def _view(self, name: str, owner: Value) -> Value:
        view = Value(owner)
        view.apart = name in ("data", "detach", "numpy")
        return view

    def _is_inner(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of something that the function makes, or of what that holds."""
        root = self._names.get(dotted(node).partition(".")[0])
        return root is not None and not root.outer

    def _subscript(self, node: ast.Subscript) -> Maybe:
        owner = self._value(node.value)
        self._value(node.slice)
        return None if owner is None else Value(owner)

    def _binary(self, node: ast.BinOp) -> Maybe:
        left, right = self._value(node.left), self._value(node.right)
        if left is None and right is None:
            return None
        result = Value(tracked=tracked_most((left, right)))
        if result.tracked and isinstance(node.op, PRODUCTS):
            self._save_factors(node.op, left, right, result)
        return result

    def _save_factors(self, op: ast.operator, left: Maybe, right: Maybe, result: Value) -> None:
        if left and right:
            left.save()
            right.save()
        elif isinstance(op, ast.Pow):
            (left or result).save()
        elif isinstance(op, ast.Div) and right:
            right.save()
            result.save()

    def _unary(self, node: ast.UnaryOp) -> Maybe:
        value = self._value(node.operand)
        return Value(tracked=value.tracked) if value and not isinstance(node.op, ast.Not) else None

    def _choice(self, node: ast.IfExp) -> Maybe:
        self._value(node.test)
        return either((self._value(node.body), self._value(node.orelse)))

    def _boolean(self, node: ast.BoolOp) -> Maybe:
        return either([self._value(item) for item in node.values])

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        return Value(*present(self._value(item) for item in node.elts), container=True)

    def _mapping(self, node: ast.Dict) -> Value:
        return Value(*present(self._value(item) for item in node.values), container=True)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        self._generators(node.generators)
        return Value(*present([self._value(node.elt)]), container=True)

    def _dict_comprehension(self, node: ast.DictComp) -> Value:
        self._generators(node.generators)
        return Value(*present([self._value(node.value)]), container=True)

    def _generators(self, generators: Iterable[ast.comprehension]) -> None:
        for generator in generators:
            iterable = self._value(generator.iter)
            self._bind(generator.target, None if iterable is None else Value(iterable))

    def _inner(self, node: ast.Starred | ast.Await) -> Maybe:
        return self._value(node.value)

    def _walrus(self, node: ast.NamedExpr) -> Maybe:
        value = self._value(node.value)
        self._bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> None:
        before = dict(self._names)
        for argument in node.args.args:
            self._names[argument.arg] = Value(tracked=HANDED)
        self._value(node.body)
        self._names = before

    def _call(self, node: ast.Call) -> Maybe:
        raise NotImplementedError


_EXPRESSIONS: dict[type, Callable[[Expressions, Any], Maybe]] = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.IfExp: Expressions._choice,
    ast.BoolOp: Expressions._boolean,
    ast.Tuple: Expressions._sequence,
    ast.List: Expressions._sequence,
    ast.Set: Expressions._sequence,
    ast.Dict: Expressions._mapping,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._dict_comprehension,
    ast.Starred: Expressions._inner,
    ast.Await: Expressions._inner,
    ast.NamedExpr: Expressions._walrus,
    ast.Lambda: Expressions._lambda,
    ast.Call: lambda self, node: self._call(node),
}
