"""The data of an iteration: names that hold what a loop yields, what `next` draws in it, or what is made of that."""

from __future__ import annotations

from collections.abc import Container, Iterator

import libcst as cst

from torchlint import hints, knowledge
from torchlint.model.definitions import dotted
from torchlint.syntax import children, walk

_PASSING = frozenset("tqdm trange track list tuple iter reversed sorted islice prefetch".split())
_COUNTING = frozenset("range trange count len type isinstance print size dim numel ndimension nelement".split())
_FROM_DATA = frozenset(
    "tensor as_tensor from_numpy asarray frombuffer Tensor FloatTensor LongTensor DoubleTensor HalfTensor IntTensor "
    "BoolTensor ByteTensor new_tensor".split()
)
_NEW = (knowledge.CREATORS | knowledge.CREATOR_METHODS) - _FROM_DATA
_LOOP_HEADERS = (cst.For, cst.CompFor)


class IterationData:
    """Which expressions in the body of a loop are made of the data of the iteration.

    A number that counts iterations, or a size, is no data, but what is taken at that index is.
    """

    def __init__(self, loop: cst.CSTNode, modules: Container[str] = ()) -> None:
        """`modules` are names of what is imported: no call there changes them."""
        self.yielded: set[str] = set()
        """The targets of the loop."""
        self.varies_size = False
        """Whether each iteration has another size of a batch or an image."""
        self._modules = modules
        self._data: set[str] = set()
        self._counters: set[str] = set()
        for target, iterable in _headers(loop):
            self._bind_yielded(target, iterable)
        self._nodes = [item for part in _body(loop) for item in walk(part)]
        known = -1
        while known != (known := len(self._data) + len(self._counters)):
            for node in self._nodes:
                self._follow(node)

    def feeds(self, node: cst.CSTNode) -> bool:
        """Whether an expression or a statement reads data of the iteration."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._is_data(node)
        if isinstance(node, cst.Call):
            return self._feeds_call(node)
        if isinstance(node, cst.Subscript) and any(self._is_index(item) for item in node.slice):
            return True
        return any(self.feeds(child) for child in children(node))

    def _is_data(self, node: cst.Name | cst.Attribute) -> bool:
        if dotted(node) in self._data:
            return True
        if isinstance(node, cst.Name) or node.attr.value in knowledge.PLAIN_ATTRIBUTES:
            return False
        return self.feeds(node.value)

    def _feeds_call(self, node: cst.Call) -> bool:
        func = node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else dotted(func)
        if name == "next":
            return True
        if name in _COUNTING or name in _NEW or hints.LOADING.search(name):
            return False
        return self.feeds(func) or any(self.feeds(item.value) for item in node.args)

    def _is_index(self, node: cst.CSTNode) -> bool:
        return any(isinstance(item, cst.Name) and item.value in self._data | self._counters for item in walk(node))

    # -- names ----------------------------------------------------------------------------------------

    def _bind_yielded(self, target: cst.BaseExpression, iterable: cst.BaseExpression) -> None:
        """Bind the target of the loop; `enumerate` and `zip` part by part."""
        name = dotted(iterable.func).rpartition(".")[2] if isinstance(iterable, cst.Call) else ""
        parts = [item.value for item in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else []
        given = [item.value for item in iterable.args if item.keyword is None] if isinstance(iterable, cst.Call) else []
        if name == "enumerate" and len(parts) == 2 and given:
            self._bind(parts[0], self._counters)
            self._bind_yielded(parts[1], given[0])
        elif name == "zip" and len(parts) == len(given):
            for part, item in zip(parts, given, strict=True):
                self._bind_yielded(part, item)
        elif name in _PASSING and given and name not in _COUNTING:
            self._bind_yielded(target, given[0])
        else:
            sizes = _are_numbers(iterable) or bool(hints.SIZE.search(dotted(target)))
            self.varies_size |= sizes
            self._bind(target, self._counters if sizes or counts(iterable) else self._data)
        self.yielded.update(_names_in(target))

    def _bind(self, target: cst.CSTNode, names: set[str]) -> None:
        names.update(_names_in(target))

    def _follow(self, node: cst.CSTNode) -> None:
        """Bind what a node assigns, if that is data of the iteration, or counts."""
        for target, source in (*_assigned(node), *self._handed(node)):
            if hints.SIZE.search(dotted(target)) and (isinstance(node, cst.AugAssign) or _reads(source, target)):
                self.varies_size = True
            if self.feeds(source):
                self._bind(target, self._data)
            elif not isinstance(source, cst.Call) and self._is_index(source):
                self._bind(target, self._counters)

    def _handed(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """The object of a method that is called for what it does, with the call: `self.set_input(batch)`."""
        call = node.value if isinstance(node, cst.Expr) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            if dotted(call.func).partition(".")[0] not in self._modules:
                yield call.func.value, call


def counts(iterable: cst.CSTNode) -> bool:
    """Whether what is iterated over are numbers that count: `range(n)`, `tqdm(range(n))`."""
    while isinstance(iterable, cst.Call):
        name = dotted(iterable.func).rpartition(".")[2]
        if name in _COUNTING:
            return True
        if name not in _PASSING or not iterable.args:
            return False
        iterable = iterable.args[0].value
    return False


def _headers(loop: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The targets of a loop or comprehension, each with what is iterated over."""
    header = loop if isinstance(loop, cst.For) else getattr(loop, "for_in", None)
    while isinstance(header, _LOOP_HEADERS):
        yield header.target, header.iter
        header = header.inner_for_in if isinstance(header, cst.CompFor) else None


def _body(loop: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(loop, (cst.For, cst.While)):
        yield from children(loop.body)
        if isinstance(loop, cst.While):
            yield loop.test
    else:
        yield from (child for child in children(loop) if not isinstance(child, cst.CompFor))


def _assigned(node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The targets that a node binds, each with what it binds them to."""
    if isinstance(node, cst.Assign):
        yield from ((item.target, node.value) for item in node.targets)
    elif isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, _LOOP_HEADERS):
        yield node.target, node.iter
    elif isinstance(node, cst.WithItem) and node.asname is not None:
        yield node.asname.name, node.item
    elif isinstance(node, cst.FunctionDef):
        yield node.name, node.body


def _names_in(target: cst.CSTNode) -> Iterator[str]:
    """The names and attributes that a target binds; of an element the name of the whole."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names_in(element.value)
    elif name := dotted(target):
        yield name


def _reads(source: cst.CSTNode, target: cst.CSTNode) -> bool:
    return any(isinstance(item, cst.Name) and item.value == dotted(target) for item in walk(source))


def _are_numbers(iterable: cst.CSTNode) -> bool:
    """Whether literal numbers are iterated over."""
    inside = children(iterable) if isinstance(iterable, (cst.Tuple, cst.List)) else []
    return bool(inside) and all(isinstance(item, cst.Element) and _is_number(item.value) for item in inside)


def _is_number(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Integer, cst.Float))
