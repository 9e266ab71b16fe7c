"""Changes in place that may be of a tensor that autograd has saved, by what is written in the function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from torchlint.pytorch.api import CREATORS
from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES
from torchlint.syntax.python_ast import LOOPS, called_name, children, dotted, inside, is_literal, walk
from torchlint.syntax.python_tree import PythonTree

_COUNTING = frozenset({"len", "int", "round", "range", "enumerate", "count", "time", "perf_counter"})
_NUMBERS = _COUNTING | {"size", "item", "numel", "dim"}
_CONTAINERS = frozenset({"dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque", "tolist"})
_FRESH = CREATORS | _COUNTING | _CONTAINERS | {"clone", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"}
"""Calls that give a tensor of its own, a number or a container of Python."""
_FACTS = frozenset({"shape", "device", "dtype", "ndim", "size", "dim", "numel", "is_cuda", "type", "layout"})
"""Attributes of a tensor that compute nothing with it."""
_BINDING = frozenset(
    {ast.arg, ast.Assign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr, ast.comprehension, ast.withitem}
)
"""Nodes that may bind names."""
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)
_OF_PYTHON = (ast.Constant, ast.JoinedStr, *_DISPLAYS)


def written(tree: PythonTree) -> Iterator[ast.AST]:
    """The calls and statements that change something in place, whatever it is."""
    yield from (call for call in tree.of_type(ast.Call) if called_name(call) in INPLACE or works_in_place(call))
    yield from tree.of_type(ast.AugAssign)
    slots = (item for item in tree.of_type(ast.Subscript) if type(item.ctx) is ast.Store)
    statements = dict.fromkeys(map(tree.statement, slots))
    yield from (item for item in statements if isinstance(item, ast.Assign))


def of_tensors(tree: PythonTree) -> Iterator[ast.AST]:
    """Functions that may change a tensor after its use."""
    functions: dict[ast.AST, _Names] = {}
    attributes = _Attributes(tree)
    for node in written(tree):
        function = tree.function_around(node)
        if function is not None and function not in functions:
            functions[function] = _Names.of(function)
        names = functions[function] if function is not None else None
        if any(_may_be_used_tensor(tree, names, attributes, node, target) for target in _changed(node)):
            yield node


def works_in_place(call: ast.Call) -> bool:
    """Whether a call asks a module or function to work in place, or to write its result into a tensor."""
    named = any(item.arg == "out" or (item.arg == "inplace" and is_literal(item.value, True)) for item in call.keywords)
    return named or (called_name(call) in INPLACE_MODULES and any(is_literal(item, True) for item in call.args))


@dataclass
class _Names:
    """The bindings and reads of each name in a function."""

    bound: dict[str, list[ast.AST]] = field(default_factory=dict)
    read: dict[str, list[ast.Name]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: ast.AST) -> _Names:
        found = cls()
        for node in inside(function):
            if isinstance(node, ast.Name):
                if type(node.ctx) is ast.Load:
                    found.read.setdefault(node.id, []).append(node)
            elif type(node) in _BINDING:
                for name in _bound(node):
                    found.bound.setdefault(name, []).append(node)
        return found


class _Attributes:
    """The values that a file gives to attributes by each name."""

    def __init__(self, tree: PythonTree) -> None:
        self._tree = tree

    @cached_property
    def _given(self) -> dict[str, list[tuple[ast.AST | None, ast.expr | None]]]:
        """Each with the statement that gives it; None for what a loop, a `with` or a part of a tuple gives."""
        found: dict[str, list[tuple[ast.AST | None, ast.expr | None]]] = {}
        for node in self._tree.of_type(ast.Attribute):
            if type(node.ctx) is ast.Store:
                parent = self._tree.parent(node)
                value = parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
                found.setdefault(node.attr, []).append((parent, value))
        return found

    def are_containers(self, name: str) -> bool:
        """Whether attributes of a name only ever get containers of Python."""
        given = self._given.get(name, ())
        return bool(given) and all(_is_container(value) for _, value in given)

    def are_numbers(self, name: str) -> bool:
        """Whether attributes of a name only ever get numbers, and sums with numbers."""
        given = self._given.get(name, ())
        begins = any(not isinstance(statement, ast.AugAssign) for statement, _ in given)
        return begins and all(value is not None and _adds_number(value) for _, value in given)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a node binds: a parameter, an assignment, a loop or a `with`; `x += 1` binds none anew."""
    if isinstance(node, ast.arg):
        yield node.arg
    for target in _targets(node):
        yield from (item.id for item in walk(target) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr, ast.comprehension)):
        return [node.target]
    return [node.optional_vars] if isinstance(node, ast.withitem) and node.optional_vars is not None else []


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a change is of: `x[0]` of `x[0] = 1`, `x` of `x.add_(1)`."""
    if isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Assign):
        yield from (item for target in node.targets for item in walk(target) if isinstance(item, ast.Subscript))
    elif isinstance(node, ast.Call):
        outs = [item.value for item in node.keywords if item.arg == "out"]
        if works_in_place(node) and not outs:
            yield node
        elif called_name(node) in INPLACE and isinstance(node.func, ast.Name):
            yield from node.args[:1]
        elif called_name(node) in INPLACE and isinstance(node.func, ast.Attribute):
            owner = dotted(node.func.value)
            if owner.rpartition(".")[2] != "init":
                yield from node.args[:1] if owner in ("torch", "F") else [node.func.value]
        yield from outs


def _may_be_used_tensor(
    tree: PythonTree, names: _Names | None, attributes: _Attributes, node: ast.AST, changed: ast.expr
) -> bool:
    """Whether what a statement changes may be a tensor with which something was computed before."""
    if isinstance(node, ast.AugAssign) and _is_of_python(node.value):
        return False
    if isinstance(node, ast.Assign) and _is_entry(changed):
        return False
    owner = _root(changed)
    if isinstance(owner, ast.Call):
        return called_name(owner) not in _FRESH
    if isinstance(owner, ast.Attribute):
        return not (attributes.are_containers(owner.attr) or attributes.are_numbers(owner.attr))
    if not isinstance(owner, ast.Name) or names is None:
        return True
    bound = names.bound.get(owner.id, [])
    reads = names.read.get(owner.id, [])
    if not bound or not all(map(_binds_fresh, bound)):
        return True
    if _is_element(node, changed, owner) and any(map(_binds_container, bound)):
        return any(map(_holds_more_than_numbers, bound)) or any(_may_fill(tree, item) for item in reads)
    if isinstance(node, ast.AugAssign) and owner is changed and not _adds_number(node.value):
        return True  # a number becomes a tensor by the sum
    return any(_is_before(tree, item, node) and not _is_harmless(tree, item) for item in reads)


def _root(node: ast.expr) -> ast.expr:
    """The variable, attribute or call that an expression is a part or a view of: `x` of `x[0].T.view(-1)`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called_name(node) not in _FRESH:
            node = node.func.value
        elif isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
            node = node.value
        else:
            return node


def _is_entry(target: ast.expr) -> bool:
    """Whether a slot is an entry of a dictionary under a text."""
    key = target.slice if isinstance(target, ast.Subscript) else None
    return isinstance(key, ast.JoinedStr) or (isinstance(key, ast.Constant) and isinstance(key.value, str))


def _is_element(node: ast.AST, changed: ast.expr, owner: ast.Name) -> bool:
    """Whether a statement changes a part of what a name is bound to, and does not just store an element there."""
    is_stored = isinstance(node, ast.Assign) and isinstance(changed, ast.Subscript) and changed.value is owner
    return changed is not owner and not is_stored


def _assigned(node: ast.AST) -> ast.expr | None:
    """The value of an assignment; None of what binds a name otherwise."""
    return node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None


def _binds_container(node: ast.AST) -> bool:
    return _is_container(_assigned(node))


def _holds_more_than_numbers(node: ast.AST) -> bool:
    """Whether a name is bound to a container that is not empty, nor one of constants."""
    value = _assigned(node)
    if isinstance(value, ast.Call):
        return called_name(value) != "tolist" and bool(value.args or value.keywords)
    return not all(isinstance(item, ast.Constant) for item in children(value)) if value is not None else False


def _may_fill(tree: PythonTree, read: ast.Name) -> bool:
    """Whether a use of a container may put something into it: a slot of it is stored, or it is passed on."""
    parent = tree.parent(read)
    if isinstance(parent, ast.Subscript) and parent.value is read:
        statement = tree.parent(parent)
        return isinstance(statement, ast.Assign) and not _adds_number(statement.value)
    return not isinstance(parent, (ast.For, ast.comprehension, ast.Compare, ast.Return))


def _is_container(value: ast.expr | None) -> bool:
    is_called = isinstance(value, ast.Call) and called_name(value) in _CONTAINERS
    return is_called or isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp))


def _is_of_python(value: ast.expr | None) -> bool:
    """Whether an expression is a container or a text, which `+=` never turns into a tensor."""
    return isinstance(value, _OF_PYTHON) and not (isinstance(value, ast.Constant) and _is_number(value.value))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _binds_fresh(node: ast.AST) -> bool:
    """Whether a name is bound to something of its own: a number, a container, or a tensor that was just made."""
    value = _assigned(node)
    if isinstance(value, ast.Call):
        asks = any(item.arg == "requires_grad" and not is_literal(item.value, False) for item in value.keywords)
        return called_name(value) in _FRESH and not asks
    return isinstance(value, _OF_PYTHON) and all(isinstance(target, ast.Name) for target in _targets(node))


def _adds_number(value: ast.expr) -> bool:
    """Whether an expression surely is a number: one that is written, counted, or read from a shape."""
    if isinstance(value, ast.BinOp):
        return _adds_number(value.left) and _adds_number(value.right)
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
    if isinstance(value, ast.Call):
        return called_name(value) in _NUMBERS
    return isinstance(value, ast.Constant)


def _is_before(tree: PythonTree, read: ast.Name, change: ast.AST) -> bool:
    """Whether a name is read before a change: above it, or in a loop that both stand in."""
    assert isinstance(change, (ast.expr, ast.stmt))
    if (read.lineno, read.col_offset) < (change.lineno, change.col_offset):
        return True
    around = {item for item in tree.ancestors(change) if isinstance(item, LOOPS)}
    return any(item in around for item in tree.ancestors(read))


def _is_harmless(tree: PythonTree, read: ast.Name) -> bool:
    """Whether a read computes nothing with a tensor: a fact of it, or what is changed itself."""
    parent = tree.parent(read)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _FACTS or _is_changed_alone(tree, parent)
    if isinstance(parent, ast.keyword):
        return parent.arg == "out"
    return isinstance(parent, ast.Subscript) and parent.value is read and isinstance(parent.ctx, ast.Store)


def _is_changed_alone(tree: PythonTree, method: ast.Attribute) -> bool:
    """Whether a method works in place, and nothing is computed with its result."""
    if method.attr not in INPLACE:
        return False
    call = tree.parent(method)
    around = tree.parent(call) if call is not None else None
    return isinstance(around, ast.Expr) or (isinstance(around, ast.Attribute) and _is_changed_alone(tree, around))
