"""Expressions: which values they give, and what they save of others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from torchlint.prefilter.effects import Effect, Positions, Surroundings
from torchlint.prefilter.known import CALLED, NOT_TENSORS, PRODUCTS, SAVING, SHARING
from torchlint.prefilter.names import dotted, is_unusual, may_be_self
from torchlint.prefilter.outline import Function
from torchlint.prefilter.values import HANDED, MADE, NOT, Maybe, Names, Value, either, present, tracked_most
from torchlint.pytorch.api import RECURRENT
from torchlint.pytorch.autograd_table import MODULES
from torchlint.pytorch.binding import bind
from torchlint.pytorch.table import operands

_WEIGHTS = ("weight", "bias")


class Expressions:
    """Reads expressions, and binds their values to names."""

    def __init__(self, surroundings: Surroundings, function: Function | None, *, called: bool = False) -> None:
        """`function`: what is read, unless it is the rest of a file; `called`: what it is handed has graphs."""
        self.surroundings = surroundings
        self.owner = function.owner if function else ""
        self._outermost = function.name if function else ""
        self.called = called
        self.saved_changed = False
        self.leaf_changed = False
        self.handing: dict[str, Positions] = {}
        """What is called with something that has a graph, and at which positions."""
        self._function = ""
        self._names: Names = {}
        self._without_grad = False
        self._infers = False
        self._repeats = True
        """Whether loops are read twice."""
        self._kept: list[Value] = []
        """What was kept for backward so far."""
        self._left: set[Value] = set()
        """What was kept on ways that have left the function."""
        self._nested: dict[str, Effect] = {}
        """What the functions do that are defined in the function."""
        self._handed: list[tuple[Value, Positions]] = []
        """What the function is handed, and where."""
        self._held: list[Value] = []
        self._itself = Value(computed=False)
        """What `self` stands for."""
        self._attributes: set[Value] = set()
        """What the attributes of `self` were at the end of functions."""
        self._returned: list[Value] = []

    def _change(self, target: Value, by: Iterable[Maybe] = ()) -> None:
        """Something is changed in place, by what may have a graph."""
        tracked = tracked_most(by)
        self.leaf_changed |= not self._without_grad and target.is_leaf()
        for value in target.storage():
            value.changed = True
            value.tracked = max(value.tracked, tracked)
            self.saved_changed |= value.saved and value.computed and not self._infers
            if value.owner is not None:
                value.owner.part_changed = True

    def _change_held(self, owner: Value) -> None:
        """Something is changed in place that an object may hold."""
        for item in owner.storage():
            for held in item.held:
                self._change(held)

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
        elif isinstance(target, ast.Attribute) and target.attr == "requires_grad":
            self._require_grad(self._value(target.value))
        elif name := dotted(target):
            self._names[name] = value
            if value is not None and not (value.label or value.computed or value.outer):
                value.label = name

    def _require_grad(self, value: Maybe) -> None:
        """What something is told to become: a leaf."""
        if value is not None:
            value.leaf, value.tracked = True, MADE

    def _unpack(self, target: ast.Tuple | ast.List, value: Maybe, source: ast.expr | None) -> None:
        sources = source.elts if isinstance(source, (ast.Tuple, ast.List)) else []
        apart = len(sources) == len(target.elts)
        for index, item in enumerate(target.elts):
            part = self._value(sources[index]) if apart else self._unpacked(value)
            self._bind(item.value if isinstance(item, ast.Starred) else item, part)

    def _unpacked(self, value: Maybe) -> Maybe:
        return self._component(value) if value and value.whole else self._item(value)

    def _component(self, whole: Value) -> Value:
        """A part of what a module gave; of a module that is not known to give tensors the model knows no graph."""
        part = Value(whole)
        made = (whole.whole, *self.surroundings.made(whole.whole, self.owner))
        if not self.surroundings.goes_backward and RECURRENT.isdisjoint(made):
            part.tracked = NOT
        return part

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
            self._names[node.id] = bound = self._unbound(node.id, node.id)
            bound.package = self.surroundings.is_imported(node.id)
            if bound.package and (name := self.surroundings.unaliased(node.id)) in CALLED:
                bound.method = name
        value = self._names[node.id]
        if value is not None and value.overwritten:
            self.saved_changed = True
        return value

    def _keep(self, value: Value) -> None:
        """Something keeps a value for backward."""
        for item in value.storage():
            if not item.saved:
                item.saved = True
                self._kept.append(item)

    def _save(
        self,
        operator: str,
        given: list[Maybe],
        result: Value,
        changed: Maybe = None,
        keywords: Mapping[str, Maybe] = MappingProxyType({}),
    ) -> None:
        """An operator keeps what the gradients of its inputs need; not what it `changed` itself."""
        for form in SAVING.get(operator, ()) if result.tracked else ():
            values = bind(operands(form.parameters), given, keywords).values
            for name, kept in form.saves.items():
                if (owner := values.get(name)) is not None and (owner.tracked or owner.container):
                    for item in kept:
                        value = result if item == "result" else values.get(item)
                        if value is not None and value is not changed:
                            self._keep(value)

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
            value = self._names[name] = self._unbound(node.attr, name)
            if node.attr.startswith(_WEIGHTS) and self._is_of_torch(name.rpartition(".")[0]):
                value.tracked, value.leaf = MADE, True
            return value
        owner = self._value(node.value)
        if is_unusual(node.value) and may_be_self(node.value):
            self.saved_changed = self.leaf_changed = True
        if owner is None or (node.attr in CALLED and self._is_imported(owner)):
            return _function(node.attr)
        if node.attr.startswith(_WEIGHTS) and self._may_be_of_torch(owner):
            return self._parameter(node, owner)
        if node.attr in SHARING:
            return self._view(node.attr, owner)
        if owner.whole:
            return self._component(owner)
        may_be_held = self.surroundings.may_keep_tensor(f"self.{node.attr}")
        held = [value for item in owner.storage() for value in item.held] if may_be_held else []
        part = Value(*held, tracked=owner.tracked, computed=owner.computed)
        part.owner = owner if owner.outer else None
        if node.attr in CALLED:
            part.method, part.receiver = node.attr, owner
        return part

    def _is_package(self, value: Value) -> bool:
        """Whether a value may be what the file imports, or a part of that."""
        return any(map(self._is_imported, value.storage()))

    def _is_imported(self, value: Value) -> bool:
        return _root(value).package

    def _may_be_of_torch(self, value: Value) -> bool:
        """Whether a value may be one of PyTorch's own modules, or what the function is handed one as."""
        label = self._label(value)
        return self._is_of_torch(label) if label else value.outer and bool(value.tracked)

    def _is_of_torch(self, label: str) -> bool:
        """Whether what has a label may be one of PyTorch's own modules."""
        return bool(label) and not MODULES.keys().isdisjoint((label, *self.surroundings.made(label, self.owner)))

    def _parameter(self, node: ast.Attribute, owner: Value) -> Value:
        """A weight or bias of a module: the same one whenever it is read."""
        key = f"{id(owner)}.{node.attr}"
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = Value(tracked=MADE)
            known.leaf = known.outer = True
        return known

    def _label(self, value: Maybe) -> str:
        """The name by which a value came into the function, or its class: `self.layers` for a `layer` of them."""
        labels = [item.label for item in value.storage() if item.label] if value else []
        return labels[0] if labels else ""

    def _view(self, name: str, owner: Value) -> Value:
        view = Value(owner)
        view.apart = name in ("data", "detach", "numpy")
        view.method, view.receiver = name, owner
        return view

    def _is_inner(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of something that the function makes, or whose class the file has."""
        root = self._names.get(dotted(node).partition(".")[0])
        return root is not None and (not root.outer or self.surroundings.is_class(root.label))

    def _subscript(self, node: ast.Subscript) -> Maybe:
        owner = self._value(node.value)
        self._value(node.slice)
        if owner is None:
            return None
        if owner.whole and isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
            return self._component(owner)
        return Value(owner, computed=owner.computed)

    def _binary(self, node: ast.BinOp) -> Maybe:
        left, right = self._value(node.left), self._value(node.right)
        if left is None and right is None:
            return None
        result = Value(tracked=tracked_most((left, right)))
        if result.tracked and type(node.op) in PRODUCTS:
            self._save(PRODUCTS[type(node.op)], [left, right], result)
        return result

    def _compare(self, node: ast.Compare) -> Maybe:
        operands = [self._value(item) for item in (node.left, *node.comparators)]
        return Value() if any(present(operands)) else None

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
            self._bind(generator.target, self._item(self._value(generator.iter)))

    def _item(self, iterable: Maybe) -> Maybe:
        return None if iterable is None else Value(iterable, computed=iterable.computed)

    def _inner(self, node: ast.Starred | ast.Await) -> Maybe:
        return self._value(node.value)

    def _walrus(self, node: ast.NamedExpr) -> Maybe:
        value = self._value(node.value)
        self._bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> Value:
        self._evaluated(node, [Value(tracked=HANDED) for _ in node.args.args])
        function = Value(computed=False)
        function.body = node
        return function

    def _evaluated(self, node: ast.Lambda, arguments: Iterable[Maybe]) -> Maybe:
        """What a lambda gives for some arguments."""
        before = dict(self._names)
        self._names.update(zip((item.arg for item in node.args.args), arguments, strict=False))
        result = self._value(node.body)
        self._names = before
        return result

    def _call(self, node: ast.Call) -> Maybe:
        raise NotImplementedError


def _function(name: str) -> Maybe:
    """A function of a package that is not called yet."""
    if name not in CALLED:
        return None
    function = Value(computed=False)
    function.method = name
    return function


def _root(value: Value) -> Value:
    """What a value is an attribute of, and so on."""
    while value.owner is not None:
        value = value.owner
    return value


_EXPRESSIONS: dict[type, Callable[[Expressions, Any], Maybe]] = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.BinOp: Expressions._binary,
    ast.Compare: Expressions._compare,
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
