"""A quick reading of one function: what it changes in place, and whether that may have been saved or be a leaf.

Statements are read in order, loops twice, branches one after the other. A name holds a value, or nothing where it is
bound to what is no tensor. Whether an operator saves is looked up in the table that the model uses; what is called
without being known saves nothing, as the model takes it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torchlint.operators import INPLACE, MAYBE_VIEWS, NOT_DIFFERENTIABLE, OPERATORS, VIEWS, Operator

_PRODUCTS = (ast.Mult, ast.Div, ast.MatMult, ast.Pow, ast.Mod)
_WITHOUT_GRADIENTS = frozenset("init math np numpy os random".split())
_PACKAGES = frozenset("torch F nn linalg functional self torch.nn.functional nn.functional".split())
_PLAIN = frozenset(
    "len int float str bool range isinstance getattr hasattr print format join keys enumerate type id".split()
)
_WITHOUT_GRAPH = NOT_DIFFERENTIABLE | frozenset("zeros ones empty full arange rand randn randint eye tensor".split())
_BUILTINS = _PLAIN | frozenset("max min sum abs round divmod pow all any slice iter next".split())
_CONTAINERS = frozenset(
    "list tuple dict set sorted reversed zip map filter defaultdict OrderedDict items values".split()
)
_PLAIN_TYPES = frozenset("int float bool str bytes".split())
_COLLECTING = frozenset("append extend insert add update appendleft".split())
_NOT_TENSORS = frozenset("shape device dtype ndim is_cuda training".split())


def _called_by(names: Iterable[str]) -> frozenset[str]:
    """The names that operators are called by: `max` for `max.dim`, `norm` for `linalg.norm`."""
    return frozenset(
        name.partition(".")[0] if name.endswith((".dim", ".other")) else name.rpartition(".")[2] for name in names
    )


def _kept(operator: Operator) -> set[str]:
    return {item for kept in operator.saves.values() for item in kept if not item.startswith("result.")}


_KNOWN = _called_by((*OPERATORS, *INPLACE, *VIEWS, *MAYBE_VIEWS))
_VIEWS = _called_by((*VIEWS, *MAYBE_VIEWS))
_SAVING_INPUT = _called_by(name for name, operator in OPERATORS.items() if _kept(operator) - {"result"})
_SAVING_RESULT = _called_by(name for name, operator in OPERATORS.items() if "result" in _kept(operator))


@dataclass(frozen=True)
class Effect:
    """What calling a function or module does; of what is not known nothing is assumed, as the model assumes nothing."""

    saves: bool = False
    keeps_result: bool = False
    changes: bool = False
    tracks: bool = False
    """Whether its result has a graph even if what it is handed has none."""
    attributes: frozenset[str] = frozenset()
    """Which attributes of `self` it changes in place."""

    def __or__(self, other: Effect) -> Effect:
        return Effect(
            self.saves or other.saves,
            self.keeps_result or other.keeps_result,
            self.changes or other.changes,
            self.tracks or other.tracks,
            self.attributes | other.attributes,
        )


class Surroundings(Protocol):
    """What a function has around it."""

    def effect(self, name: str) -> Effect:
        """What calling a name, or an attribute of that name, does."""

    def is_parameter(self, name: str) -> bool:
        """Whether a name or attribute is one by which parameters go."""

    def is_called(self, name: str) -> bool:
        """Whether something hands tensors with graphs to a function of a name."""

    @property
    def goes_backward(self) -> bool:
        """Whether a backward pass may show that anything that is called has a graph."""


_NOT, _HANDED, _MADE = range(3)
"""Whether a value has a graph: not as far as is known, if what the function is handed has one, or anyway."""


class _Value:
    """What may be a tensor."""

    __slots__ = ("apart", "bases", "changed", "container", "label", "leaf", "outer", "overwritten", "saved", "tracked")

    def __init__(self, *bases: _Value, tracked: int = _NOT, container: bool = False) -> None:
        self.bases = bases
        """What it may share its storage with, or may be."""
        self.tracked: int = tracked or max((base.tracked for base in bases), default=_NOT)
        self.container = container
        self.apart = False
        """Whether autograd does not see what is done to it: a leaf's `.data`."""
        self.saved = self.changed = self.overwritten = self.leaf = self.outer = False
        self.label = ""

    def storage(self) -> set[_Value]:
        """Itself and all that it may share its storage with."""
        found: set[_Value] = set()
        stack = [self]
        while stack:
            value = stack.pop()
            if value not in found:
                found.add(value)
                stack.extend(value.bases)
        return found

    def is_leaf(self) -> bool:
        """Whether it, or what it is a view of, may be a leaf."""
        return not self.apart and (self.leaf or any(base.is_leaf() for base in self.bases if base is not self))

    def save(self) -> None:
        for value in self.storage():
            value.saved = True


_Maybe = _Value | None
_Names = dict[str, _Maybe]


def _tracked(values: Iterable[_Maybe]) -> int:
    return max((value.tracked for value in values if value is not None), default=_NOT)


class Reading:
    """Reads one function, or a whole module."""

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
        self._names: _Names = {}
        self._without_grad = 0
        self._handed: list[_Value] = []
        self._held: list[_Value] = []
        self._returned: list[_Value] = []

    def effect(self) -> Effect:
        """What calling the function does that was read."""
        returned = [value for item in self._returned for value in item.storage()]
        return Effect(
            saves=any(value.saved for value in self._handed),
            keeps_result=any(value.saved and not value.outer for value in returned),
            changes=any(value.changed for value in self._handed),
            tracks=any(value.tracked == _MADE for value in returned),
            attributes=frozenset(value.label for value in self._held if value.changed),
        )

    def _change(self, target: _Value, by: Iterable[_Maybe] = ()) -> None:
        """Something is changed in place, by what may have a graph."""
        tracked = _tracked(by)
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

    # -- statements -------------------------------------------------------------------------------------

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            read = _STATEMENTS.get(type(statement))
            if read is not None:
                read(self, statement)
            else:
                self._parts(statement)

    def _parts(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outside = self._names, self._function, self._without_grad, self.called
        called = self.called or self.surroundings.is_called(node.name)
        self._names, self._function, self.called = dict(self._names), node.name, False
        self._without_grad += any(_switches_off(item) for item in node.decorator_list)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._hand(argument, called=called and argument.arg not in ("self", "cls"))
        for extra in (node.args.vararg, node.args.kwarg):
            if extra is not None:
                self._names[extra.arg] = _Value(container=True, tracked=_HANDED * called)
        self.block(node.body)
        self._names, self._function, self._without_grad, self.called = outside

    def _hand(self, argument: ast.arg, *, called: bool) -> None:
        kind = _annotated_as(argument.annotation)
        if kind in _PLAIN_TYPES:
            self._names[argument.arg] = None
            return
        value = _Value(tracked=_HANDED * called, container=kind.lower() in _CONTAINERS)
        value.outer = True
        self._names[argument.arg] = value
        self._handed.append(value)

    def _class_def(self, node: ast.ClassDef) -> None:
        self.block(node.body)

    def _return(self, node: ast.Return) -> None:
        value = self._value(node.value)
        if value is not None:
            self._returned.append(value)

    def _if(self, node: ast.If) -> None:
        self._value(node.test)
        before = dict(self._names)
        self.block(node.body)
        after, self._names = self._names, before
        self.block(node.orelse)
        self._merge(after)

    def _merge(self, other: _Names) -> None:
        """From here on names are what they are, or what they are in `other`."""
        for name, value in other.items():
            mine = self._names.get(name, value)
            self._names[name] = value if mine is value else _either((mine, value))

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = self._value(node.iter)
        self._loop(node, lambda: self._bind(node.target, None if iterable is None else _Value(iterable)))

    def _while(self, node: ast.While) -> None:
        self._loop(node, lambda: self._value(node.test))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, begin: Callable[[], object]) -> None:
        for _ in range(2):
            before = dict(self._names)
            begin()
            self.block(node.body)
            self._merge(before)
        self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        before = self._without_grad
        for item in node.items:
            value = self._value(item.context_expr)
            self._without_grad += _switches_off(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, value)
        self.block(node.body)
        self._without_grad = before

    def _try(self, node: Any) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._value(node.subject)
        for case in node.cases:
            self.block(case.body)

    def _assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._bind(target, value, node.value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self._value(node.value), node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        by, target = self._value(node.value), self._value(node.target)
        if target is None:
            self._bind(node.target, _Value(tracked=by.tracked) if by else None)
        elif not target.container:
            if by and isinstance(node.op, _PRODUCTS) and _tracked((by, target)):
                by.save()
            self._step(node.value)
            self._change(target, (by,))

    def _bind(self, target: ast.expr, value: _Maybe, source: ast.expr | None = None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, source)
        elif isinstance(target, ast.Subscript):
            self._put(target, value)
        elif name := _dotted(target):
            self._names[name] = value

    def _unpack(self, target: ast.Tuple | ast.List, value: _Maybe, source: ast.expr | None) -> None:
        apart = isinstance(source, (ast.Tuple, ast.List)) and len(source.elts) == len(target.elts)
        for index, item in enumerate(target.elts):
            part = self._value(source.elts[index]) if apart else value  # type: ignore[union-attr]
            self._bind(item.value if isinstance(item, ast.Starred) else item, part)

    def _put(self, target: ast.Subscript, value: _Maybe) -> None:
        owner = self._value(target.value)
        self._value(target.slice)
        if owner is None:
            return
        if owner.container:
            owner.bases += (value,) if value else ()
        elif not (isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)):
            self._change(owner, (value,))

    # -- expressions ------------------------------------------------------------------------------------

    def _value(self, node: ast.expr | None) -> _Maybe:
        read = _EXPRESSIONS.get(type(node))
        if read is not None:
            return read(self, node)
        if node is not None and not isinstance(node, (ast.Constant, ast.JoinedStr)):
            self._parts(node)
        return None

    def _name(self, node: ast.Name) -> _Maybe:
        if node.id not in self._names:
            self._names[node.id] = self._unbound(node.id, node.id)
        value = self._names[node.id]
        if value is not None and value.overwritten:
            self.saved_changed = True
        return value

    def _unbound(self, name: str, label: str) -> _Value:
        """What comes from outside of the function."""
        value = _Value(tracked=_MADE * self.surroundings.is_parameter(name))
        value.leaf, value.outer, value.label = bool(value.tracked), True, label
        self._held.append(value)
        return value

    def _attribute(self, node: ast.Attribute) -> _Maybe:
        name = _dotted(node)
        if name in self._names:
            return self._names[name]
        if node.attr in _NOT_TENSORS:
            return None
        if name.startswith("self.") or (self.surroundings.is_parameter(node.attr) and self._is_inner(node)):
            value = self._unbound(node.attr, name)
            if name:
                self._names[name] = value
            return value
        owner = self._value(node.value)
        if owner is None:
            return None
        return self._view(node.attr, owner) if node.attr in _VIEWS else _Value(tracked=owner.tracked)

    def _view(self, name: str, owner: _Value) -> _Value:
        view = _Value(owner)
        view.apart = name in ("data", "detach", "numpy")
        return view

    def _is_inner(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of something that the function makes, or of what that holds."""
        root = self._names.get(_dotted(node).partition(".")[0])
        return root is not None and not root.outer

    def _subscript(self, node: ast.Subscript) -> _Maybe:
        owner = self._value(node.value)
        self._value(node.slice)
        return None if owner is None else _Value(owner)

    def _binary(self, node: ast.BinOp) -> _Maybe:
        left, right = self._value(node.left), self._value(node.right)
        if left is None and right is None:
            return None
        result = _Value(tracked=_tracked((left, right)))
        if result.tracked and isinstance(node.op, _PRODUCTS):
            self._save_factors(node.op, left, right, result)
        return result

    def _save_factors(self, op: ast.operator, left: _Maybe, right: _Maybe, result: _Value) -> None:
        if left and right:
            left.save()
            right.save()
        elif isinstance(op, ast.Pow):
            (left or result).save()
        elif isinstance(op, ast.Div) and right:
            right.save()
            result.save()

    def _unary(self, node: ast.UnaryOp) -> _Maybe:
        value = self._value(node.operand)
        return _Value(tracked=value.tracked) if value and not isinstance(node.op, ast.Not) else None

    def _choice(self, node: ast.IfExp) -> _Maybe:
        self._value(node.test)
        return _either((self._value(node.body), self._value(node.orelse)))

    def _boolean(self, node: ast.BoolOp) -> _Maybe:
        return _either([self._value(item) for item in node.values])

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> _Value:
        return _Value(*_present(self._value(item) for item in node.elts), container=True)

    def _mapping(self, node: ast.Dict) -> _Value:
        return _Value(*_present(self._value(item) for item in node.values), container=True)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> _Value:
        self._generators(node.generators)
        return _Value(*_present([self._value(node.elt)]), container=True)

    def _dict_comprehension(self, node: ast.DictComp) -> _Value:
        self._generators(node.generators)
        return _Value(*_present([self._value(node.value)]), container=True)

    def _generators(self, generators: Iterable[ast.comprehension]) -> None:
        for generator in generators:
            iterable = self._value(generator.iter)
            self._bind(generator.target, None if iterable is None else _Value(iterable))

    def _inner(self, node: ast.Starred | ast.Await) -> _Maybe:
        return self._value(node.value)

    def _walrus(self, node: ast.NamedExpr) -> _Maybe:
        value = self._value(node.value)
        self._bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> None:
        before = dict(self._names)
        for argument in node.args.args:
            self._names[argument.arg] = _Value(tracked=_HANDED)
        self._value(node.body)
        self._names = before

    # -- calls ------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> _Maybe:
        receiver = None
        if isinstance(node.func, ast.Attribute):
            package = _dotted(node.func.value)
            if package.rpartition(".")[2] in _WITHOUT_GRADIENTS:
                return None
            if package not in _PACKAGES:
                receiver = self._value(node.func.value)
        elif not isinstance(node.func, ast.Name):
            receiver = self._value(node.func)
        keywords = {item.arg: self._value(item.value) for item in node.keywords if item.arg}
        given = [receiver, *(self._value(item) for item in node.args), *keywords.values()]
        inputs = list(_present(given))
        if out := keywords.get("out"):
            self._change(out, inputs)
        name, flags = _last(node.func), {item.arg for item in node.keywords if not _is_false(item.value)}
        if name in ("Parameter", "requires_grad_", "parameters", "named_parameters") or "requires_grad" in flags:
            return self._leaf(inputs if name == "requires_grad_" else [])
        if name in _KNOWN and not self._is_own(node.func, name):
            return self._operator(name, node, inputs, "inplace" in flags)
        if name in (_BUILTINS if isinstance(node.func, ast.Name) else _PLAIN):
            return None
        if name in _CONTAINERS:
            return _Value(*inputs, container=True)
        if name in _WITHOUT_GRAPH:
            return _Value()
        if name in _COLLECTING and receiver:
            receiver.bases += tuple(inputs[1:])
            return None
        return self._called(self._made_as(node.func, name), inputs, receiver)

    def _is_own(self, func: ast.expr, name: str) -> bool:
        """Whether what has an operator's name is something else: a builtin, a module or method of the object."""
        if isinstance(func, ast.Name):
            return name in _BUILTINS or name in self._names
        return isinstance(func, ast.Attribute) and _dotted(func.value) == "self"

    def _made_as(self, func: ast.expr, name: str) -> str:
        """The name by which what is called came into the function: `layers` for a `layer` of `self.layers`."""
        called = self._names.get(name) if isinstance(func, ast.Name) else None
        if isinstance(func, ast.Subscript):
            called = self._value(func.value)
        labels = [value.label for value in called.storage() if value.label] if called else []
        return labels[0].rpartition(".")[2] if labels else name

    def _leaf(self, bases: Iterable[_Value]) -> _Value:
        leaf = _Value(*bases, tracked=_MADE)
        leaf.leaf = True
        return leaf

    def _operator(self, name: str, node: ast.Call, inputs: list[_Value], in_place: bool) -> _Maybe:
        if not inputs:
            return None
        tracked, plain = _tracked(inputs), name.removesuffix("_")
        if name in _VIEWS:
            return self._view(name, inputs[0])
        if name in _WITHOUT_GRAPH:
            return _Value()
        saved = inputs
        if name in INPLACE or in_place:
            result, saved = self._changed(inputs[0], inputs[1:]), inputs[1:]
            inputs[0].overwritten |= in_place
            self._step(*node.args)
        else:
            result = _Value(tracked=tracked)
        if tracked and plain in _SAVING_INPUT:
            for value in saved:
                value.save()
        if tracked and plain in _SAVING_RESULT:
            result.save()
        return result

    def _changed(self, target: _Value, by: Iterable[_Maybe] = ()) -> _Value:
        """What a change in place makes of a value: the same under another name."""
        self._change(target, by)
        return _Value(target)

    def _called(self, name: str, inputs: list[_Value], receiver: _Maybe) -> _Maybe:
        if _tracked(inputs):
            self.handing.add(name)
        effect = self.surroundings.effect(name)
        tracked = _MADE if effect.tracks or self.surroundings.goes_backward else _tracked(inputs)
        for attribute in effect.attributes:
            if held := self._names.get(attribute):
                self._change(held)
        handed = [value for value in inputs if value is not receiver]
        if effect.changes and handed:
            for value in handed[1:]:
                self._change(value)
            result = self._changed(handed[0])
            result.tracked = tracked
        else:
            result = _Value(tracked=tracked)
        if tracked and effect.saves:
            for value in inputs:
                value.save()
        if tracked and effect.keeps_result:
            result.save()
        return result


def _either(values: Iterable[_Maybe]) -> _Maybe:
    """A value that is one of several."""
    parts = dict.fromkeys(_present(values))
    if len(parts) < 2:
        return next(iter(parts), None)
    return _Value(*parts, container=all(part.container for part in parts))


def _present(values: Iterable[_Maybe]) -> Iterator[_Value]:
    return (value for value in values if value is not None)


def _dotted(node: ast.expr) -> str:
    """`a.b.c`, or nothing where there is more to it than names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _annotated_as(node: ast.expr | None) -> str:
    """The name of an annotated type without its arguments: `list` for `list[int]`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return _last(node) if node is not None else ""


def _switches_off(node: ast.expr) -> bool:
    """Whether a decorator or context switches gradients off."""
    return _last(node.func if isinstance(node, ast.Call) else node) in ("no_grad", "inference_mode")


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


_STATEMENTS: dict[type, Callable[[Reading, Any], None]] = {
    ast.FunctionDef: Reading._function_def,
    ast.AsyncFunctionDef: Reading._function_def,
    ast.ClassDef: Reading._class_def,
    ast.Return: Reading._return,
    ast.If: Reading._if,
    ast.For: Reading._for,
    ast.AsyncFor: Reading._for,
    ast.While: Reading._while,
    ast.With: Reading._with,
    ast.AsyncWith: Reading._with,
    ast.Try: Reading._try,
    ast.Match: Reading._match,
    ast.Assign: Reading._assign,
    ast.AnnAssign: Reading._annotated,
    ast.AugAssign: Reading._augmented,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Reading._try
_EXPRESSIONS: dict[type, Callable[[Reading, Any], _Maybe]] = {
    ast.Name: Reading._name,
    ast.Attribute: Reading._attribute,
    ast.Subscript: Reading._subscript,
    ast.BinOp: Reading._binary,
    ast.UnaryOp: Reading._unary,
    ast.IfExp: Reading._choice,
    ast.BoolOp: Reading._boolean,
    ast.Tuple: Reading._sequence,
    ast.List: Reading._sequence,
    ast.Set: Reading._sequence,
    ast.Dict: Reading._mapping,
    ast.ListComp: Reading._comprehension,
    ast.SetComp: Reading._comprehension,
    ast.GeneratorExp: Reading._comprehension,
    ast.DictComp: Reading._dict_comprehension,
    ast.Starred: Reading._inner,
    ast.Await: Reading._inner,
    ast.NamedExpr: Reading._walrus,
    ast.Lambda: Reading._lambda,
    ast.Call: Reading._call,
}
