"""The data of an iteration: names that hold the loop's items, results of `next`, or values computed from these."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from torchlint.pytorch import api, naming
from torchlint.syntax.python_ast import FUNCTIONS, LOOPS, arguments, children, dotted, walk

_PASSING = frozenset("tqdm trange track list tuple iter reversed sorted islice prefetch".split())
_COUNTING = frozenset("range trange count len type isinstance print size dim numel ndimension nelement".split())
_FROM_DATA = frozenset(
    "tensor as_tensor from_numpy asarray frombuffer Tensor FloatTensor LongTensor DoubleTensor HalfTensor IntTensor "
    "BoolTensor ByteTensor new_tensor".split()
)
_NEW = (api.CREATORS | api.CREATOR_METHODS) - _FROM_DATA
_LOOP_HEADERS = (ast.For, ast.AsyncFor, ast.comprehension)


class IterationData:
    """The expressions in a loop's body that depend on the data of the iteration.

    Iteration counters and sizes are no data, but the element at such an index is.
    """

    def __init__(self, loop: ast.AST, modules: Container[str] = ()) -> None:
        """`modules` are names of imports: calls through them do not change them."""
        self.yielded: set[str] = set()
        """The targets of the loop."""
        self.varies_size = False
        """Whether the size of a batch or an image differs from iteration to iteration."""
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

    def feeds(self, node: ast.AST) -> bool:
        """Whether an expression or a statement reads data of the iteration."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._is_data(node)
        if isinstance(node, ast.Call):
            return self._feeds_call(node)
        if isinstance(node, ast.Subscript) and self._is_index(node.slice):
            return True
        return any(self.feeds(child) for child in children(node))

    def _is_data(self, node: ast.Name | ast.Attribute) -> bool:
        if dotted(node) in self._data:
            return True
        if isinstance(node, ast.Name) or node.attr in api.PLAIN_ATTRIBUTES:
            return False
        return self.feeds(node.value)

    def _feeds_call(self, node: ast.Call) -> bool:
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else dotted(func)
        if name == "next":
            return True
        if name in _COUNTING or name in _NEW or naming.LOADING.search(name):
            return False
        return self.feeds(func) or any(map(self.feeds, arguments(node)))

    def _is_index(self, node: ast.AST) -> bool:
        return any(isinstance(item, ast.Name) and item.id in self._data | self._counters for item in walk(node))

    # -- names ----------------------------------------------------------------------------------------

    def _bind_yielded(self, target: ast.expr, iterable: ast.expr) -> None:
        """Bind the target of the loop; for `enumerate` and `zip` each part separately."""
        name = dotted(iterable.func).rpartition(".")[2] if isinstance(iterable, ast.Call) else ""
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        given = iterable.args if isinstance(iterable, ast.Call) else []
        if name == "enumerate" and len(parts) == 2 and given:
            self._bind(parts[0], self._counters)
            self._bind_yielded(parts[1], given[0])
        elif name == "zip" and len(parts) == len(given):
            for part, item in zip(parts, given, strict=True):
                self._bind_yielded(part, item)
        elif name in _PASSING and given and name not in _COUNTING:
            self._bind_yielded(target, given[0])
        else:
            sizes = _are_numbers(iterable) or bool(naming.SIZE.search(dotted(target)))
            self.varies_size |= sizes
            self._bind(target, self._counters if sizes or counts(iterable) else self._data)
        self.yielded.update(_names_in(target))

    def _bind(self, target: ast.AST, names: set[str]) -> None:
        names.update(_names_in(target))

    def _follow(self, node: ast.AST) -> None:
        """Bind the targets of a node, if they get data of the iteration or a count."""
        for target, source in (*_assigned(node), *self._handed(node)):
            if naming.SIZE.search(dotted(target)) and (isinstance(node, ast.AugAssign) or _reads(source, target)):
                self.varies_size = True
            if self.feeds(source):
                self._bind(target, self._data)
            elif not isinstance(source, ast.Call) and self._is_index(source):
                self._bind(target, self._counters)

    def _handed(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """The object of a method call that is a statement, with the call: `self.set_input(batch)`."""
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if dotted(call.func).partition(".")[0] not in self._modules:
                yield call.func.value, call


def counts(iterable: ast.AST) -> bool:
    """Whether an iterable yields counting numbers: `range(n)`, `tqdm(range(n))`."""
    while isinstance(iterable, ast.Call):
        name = dotted(iterable.func).rpartition(".")[2]
        if name in _COUNTING:
            return True
        if name not in _PASSING or not (given := arguments(iterable)):
            return False
        iterable = given[0]
    return False


def _headers(loop: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of a loop or comprehension, each with its iterable."""
    for header in (loop, *getattr(loop, "generators", ())):
        if isinstance(header, _LOOP_HEADERS):
            yield header.target, header.iter


def _body(loop: ast.AST) -> Iterator[ast.AST]:
    if isinstance(loop, LOOPS):
        yield from loop.body
        if isinstance(loop, ast.While):
            yield loop.test
    else:
        yield from (child for child in children(loop) if not isinstance(child, ast.comprehension))


def _assigned(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The targets that a node binds, each with its value."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, _LOOP_HEADERS):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr
    elif isinstance(node, FUNCTIONS):
        yield from ((ast.Name(node.name), statement) for statement in node.body)


def _names_in(target: ast.AST) -> Iterator[str]:
    """The names and attributes that a target binds; for an element the name of the whole."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _names_in(element)
    elif isinstance(target, ast.Starred):
        yield from _names_in(target.value)
    elif name := dotted(target):
        yield name


def _reads(source: ast.AST, target: ast.AST) -> bool:
    return any(isinstance(item, ast.Name) and item.id == dotted(target) for item in walk(source))


def _are_numbers(iterable: ast.AST) -> bool:
    """Whether a loop iterates over literal numbers."""
    inside = iterable.elts if isinstance(iterable, (ast.Tuple, ast.List)) else []
    return bool(inside) and all(isinstance(item, ast.Constant) and type(item.value) in (int, float) for item in inside)
