"""New weights that a function computes but that no network receives: in a dictionary of states, or in a variable."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint.index import FileIndex
from torchlint.model.definitions import FunctionInfo
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_EMPTY = frozenset({"dict", "OrderedDict"})


class Unread(NamedTuple):
    """The weights stored at `site` in `name` are never read: no network receives them."""

    site: Site
    name: str
    is_state: bool
    """Whether `name` is a dictionary of states."""


class UnreadWeights:
    """Finds the stores of new weights that nothing reads; `makes_tensor` decides what computes a new tensor."""

    def __init__(self, model: Model, makes_tensor: Callable[[ast.expr], bool]) -> None:
        self.model = model
        self.tree = model.tree
        self._makes_tensor = makes_tensor

    def all(self) -> Iterator[Unread]:
        for statement in self.tree.of_type(ast.Assign) if self._states or self._has_loops else ():
            target = statement.targets[0]
            function = self.model.definitions.function_around(statement)
            if function is None or len(statement.targets) > 1:
                continue
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                if self._is_lost_entry(statement, target.value, function) and self._makes_tensor(statement.value):
                    yield Unread(python_ast.site_of(target), target.value.id, True)
            elif isinstance(target, ast.Name) and self._is_lost_average(statement, target, function):
                if self._makes_tensor(statement.value):
                    yield Unread(python_ast.site_of(target), target.id, False)

    @cached_property
    def _states(self) -> set[tuple[FunctionInfo | None, str]]:
        """The variables that are surely the result of `state_dict()`, each with its function."""
        found: set[tuple[FunctionInfo | None, str]] = set()
        for call in FileIndex.of(self.tree).calls_named("state_dict"):
            parent = self.tree.parent(call)
            if not call.args and isinstance(parent, ast.Assign):
                targets = (item for item in parent.targets if isinstance(item, ast.Name))
                found |= {(self.model.definitions.function_around(call), item.id) for item in targets}
        return found

    @cached_property
    def _has_loops(self) -> bool:
        return b"parameters" in self.tree.source.code and b"zip" in self.tree.source.code

    # -- dictionaries ------------------------------------------------------------------------------------

    def _is_lost_entry(self, statement: ast.Assign, name: ast.Name, function: FunctionInfo) -> bool:
        """Whether a new dictionary of states gets an entry in a loop, and nothing but such stores reads it."""
        if not any(isinstance(item, ast.For) for item in self.tree.ancestors(statement)):
            return False
        read = python_ast.names_read(statement.value)
        if not any((function, item) in self._states for item in read):
            return False
        value = names.only_value(name, self.model.definitions)
        is_empty = (isinstance(value, ast.Dict) and not value.keys) or (
            isinstance(value, ast.Call) and python_ast.called_name(value) in _EMPTY and not value.args
        )
        if value is None or not ((function, name.id) in self._states or is_empty):
            return False
        uses = [item for item in self._uses(name.id, function) if isinstance(item.ctx, ast.Load)]
        return all(self.model.definitions.function_around(item) is function for item in uses) and all(
            self._only_stores(item, name.id) for item in uses
        )

    def _uses(self, name: str, function: FunctionInfo) -> list[ast.Name]:
        nodes = python_ast.walk(function.node)
        return [item for item in nodes if isinstance(item, ast.Name) and item.id == name]

    def _only_stores(self, use: ast.Name, name: str) -> bool:
        """Whether a use belongs to a store into the same dictionary, or lists its keys for a loop."""
        statement = self.tree.statement(use)
        if isinstance(statement, ast.For):
            return self._lists_keys(use, statement.iter)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        is_store = isinstance(target, ast.Subscript) and python_ast.dotted(target.value) == name
        return is_store and isinstance(statement, ast.Assign) and self._makes_tensor(statement.value)

    def _lists_keys(self, use: ast.Name, iterable: ast.expr) -> bool:
        """`for key in state`, `for key in state.keys()`; entries by `items()` may be changed in place."""
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute) and not iterable.args:
            return iterable.func.value is use and iterable.func.attr == "keys"
        return iterable is use

    # -- variables ---------------------------------------------------------------------------------------

    def _is_lost_average(self, statement: ast.Assign, name: ast.Name, function: FunctionInfo) -> bool:
        """Whether a loop over two networks computes a weighted sum of their parameters that nothing reads."""
        loop = self.tree.loop_around(statement)
        if not isinstance(loop, ast.For) or not isinstance(statement.value, ast.BinOp) or len(loop.body) > 1:
            return False
        drawn = self.model.provenance.drawn
        if drawn.is_parameter(loop, name.id):
            return False
        bases = {item.partition(".")[0] for item in python_ast.names_read(statement.value)}
        if sum(drawn.is_parameter(loop, item) for item in bases) < 2:
            return False
        return all(item is name for item in self._uses(name.id, function))
