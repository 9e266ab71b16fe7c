"""Copies of weights from one network into another: by `load_state_dict`, or parameter by parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.queries import callees, names
from torchlint.syntax.python_ast import arguments, called_name, dotted, walk

_PARAMETERS = frozenset({"parameters", "named_parameters"})
_COPYING = frozenset({"copy_", "mul_", "add_", "lerp_", "set_"})
UPDATES = LazyPattern(r"(?i)update|sync|copy|copies|polyak|average|ema|target|momentum|transfer")
"""Names of functions that may copy weights."""


@dataclass(frozen=True)
class Copy:
    """The weights of `source` go into `target`, at `node`."""

    node: ast.expr
    target: ast.expr
    source: ast.expr


class Copies:
    """Finds the copies of weights in a file, and the calls of its functions that copy weights."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree

    def all(self) -> Iterator[Copy]:
        """The copies in the code itself, and those through calls of the repository's functions."""
        yield from self._written
        for call in self.tree.of_type(ast.Call):
            called = self._called(call) if UPDATES.search(called_name(call)) else None
            given = callees.arguments(call, called) if called is not None else {}
            for copy in self.between_parameters(called) if called is not None else ():
                target, source = given.get(dotted(copy.target)), given.get(dotted(copy.source))
                if target is not None and source is not None:
                    yield Copy(call, target, source)

    def _called(self, call: ast.Call) -> FunctionInfo | None:
        found = names.function(call.func, self.definitions) or self.definitions.defined(dotted(call.func))
        return found if isinstance(found, FunctionInfo) else None

    def between_parameters(self, function: FunctionInfo) -> list[Copy]:
        """The copies that a function makes from one of its parameters into another."""
        other = function.definitions
        copies = self._written if other is self.definitions else list(Copies(other)._written)
        return [
            copy
            for copy in copies
            if other.tree.function_around(copy.node) is function.node
            if {dotted(copy.target), dotted(copy.source)} <= {*function.parameters}
        ]

    @cached_property
    def _written(self) -> list[Copy]:
        return [*self._loaded(), *self._changed()]

    def _loaded(self) -> Iterator[Copy]:
        for call in FileIndex.of(self.tree).calls_named("load_state_dict"):
            if isinstance(call.func, ast.Attribute) and call.args:
                source = state_of(call.args[0])
                if source is not None:
                    yield Copy(call, call.func.value, source)

    def _changed(self) -> Iterator[Copy]:
        for loop in self.tree.of_type(ast.For):
            if isinstance(loop.iter, ast.Call) and called_name(loop.iter) == "zip" and len(loop.iter.args) == 2:
                first, second = map(_owner_of_parameters, loop.iter.args)
                changed = _changed(loop)
                if changed is not None and first is not None and second is not None:
                    yield Copy(loop.iter, *((second, first) if changed else (first, second)))


def state_of(node: ast.expr) -> ast.expr | None:
    """The object whose `state_dict()` an expression is, or a copy of that."""
    while isinstance(node, ast.Call) and called_name(node) in ("deepcopy", "dict", "OrderedDict") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.value if node.func.attr == "state_dict" else None
    return None


def _owner_of_parameters(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARAMETERS:
        return node.func.value
    return None


def _changed(loop: ast.For) -> int | None:
    """The loop variable that is changed in place from the other one: 0 or 1."""
    if not isinstance(loop.target, ast.Tuple) or len(loop.target.elts) != 2:
        return None
    own = [{item.id for item in walk(each) if isinstance(item, ast.Name)} for each in loop.target.elts]
    for node in (item for statement in loop.body for item in walk(statement)):
        target, values = _change(node)
        root = _root(target)
        read = {item.id for value in values for item in walk(value) if isinstance(item, ast.Name)}
        for number in (0, 1):
            if root in own[number] and read & own[1 - number]:
                return number
    return None


def _change(node: ast.AST) -> tuple[ast.expr | None, list[ast.expr]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COPYING:
        return node.func.value, arguments(node)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and node.targets[0].attr == "data":
        return node.targets[0], [node.value]
    return None, []


def _root(node: ast.expr | None) -> str:
    """`p` of `p.data`, `a` of `a[1].data`, `t` of `t.data.mul_(0.9)`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def given_for(function: FunctionInfo, parameter: str, definitions: Definitions) -> list[ast.expr]:
    """The arguments that calls in the file pass for a parameter; empty if one of them is not clear."""
    name = function.name
    if name == "__init__" and function.owner is not None:
        name = function.owner.name
    calls = FileIndex.of(definitions.tree).calls_named(name)
    own = [call for call in calls if not definitions.named(call.func).startswith("torch.")]
    given = [callees.arguments(call, function).get(parameter) for call in own]
    return [] if None in given else [item for item in given if item is not None]
