"""Checkpoint files: calls of `torch.save` and `torch.load` for the same file, and the saved contents."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions
from torchlint.model.queries import names
from torchlint.model.relations.provenance.copies import given_for
from torchlint.syntax.python_ast import LOOPS, arguments, called_name, dotted, walk, without_calls, written_alike

_SAME = ("cuda", "to", "cpu", "eval", "train")
"""Methods that return the module."""
_PREFIXES = {"DataParallel": "module.", "DistributedDataParallel": "module.", "DDP": "module.", "compile": "_orig_mod."}
"""Module wrappers, with the prefix they add to the names of parameters."""


class Files:
    """Answers about the checkpoints of a file."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree

    @cached_property
    def saves(self) -> list[tuple[ast.expr, ast.expr, ast.Call]]:
        """The saved objects, each with its path and the call that saves it."""
        calls = FileIndex.of(self.tree).calls({"save"})
        saves = [call for call in calls if len(call.args) > 1 and self.definitions.named(call.func) == "torch.save"]
        return [(call.args[0], call.args[1], call) for call in saves]

    def saved_for(self, load: ast.Call) -> Iterator[tuple[ast.expr, ast.Call]]:
        """The objects saved to the file that a call of `torch.load` reads, each with the saving call."""
        path = next(iter(arguments(load)), None)
        for saved, place, call in self.saves if path is not None else ():
            if path is not None and self._is_one_path(place, path):
                yield saved, call

    def _is_one_path(self, first: ast.expr, second: ast.expr) -> bool:
        if not written_alike(first, second):
            return not self._paths(first).isdisjoint(self._paths(second))
        if isinstance(first, ast.Name):
            one, other = (self.definitions.function_around(item) for item in (first, second))
            return one is other or self._is_pair(first.id) or not self._paths(first).isdisjoint(self._paths(second))
        return True

    def _paths(self, path: ast.expr, depth: int = 3) -> set[tuple[str, object]]:
        """The texts that a path may be, each with the function whose names it reads."""
        if isinstance(path, ast.Constant):
            return {(ast.unparse(path), None)}
        value = self.stored(path) if isinstance(path, ast.Attribute) else None
        if isinstance(path, ast.Name):
            value = names.only_value(path, self.definitions)
        values = [value] if value is not None else self.given(path)
        if not values or not depth:
            return {(ast.unparse(path), self.definitions.function_around(path))}
        return {found for item in values for found in self._paths(item, depth - 1)}

    def given(self, name: ast.expr) -> list[ast.expr]:
        """The arguments that the file's calls pass for a parameter."""
        function = self.definitions.function_around(name)
        is_parameter = isinstance(name, ast.Name) and function is not None and name.id in function.parameters
        if not is_parameter or function is None or not isinstance(name, ast.Name):
            return []
        return given_for(function, name.id, self.definitions)

    def stored(self, node: ast.expr) -> ast.expr | None:
        """The value that a class gives to an attribute of its objects, if only one statement does."""
        method = self.definitions.method_around(node) if isinstance(node, ast.Attribute) else None
        if method is None or method.owner is None or dotted(node).count(".") != 1:
            return None
        stores = [item for item in walk(method.owner.node) if _binds(item, node)]
        return _bound_by(self.tree.statement(stores[0]), node) if len(stores) == 1 else None

    def _is_pair(self, name: str) -> bool:
        """Whether a file has one call that saves to a path with this name, as in a class that saves and loads."""
        return sum(dotted(path) == name for _, path, _ in self.saves) == 1

    def entries(self, saved: ast.expr) -> Iterator[tuple[str, ast.expr]]:
        """The entries of a saved object: a dictionary's by their keys, otherwise the whole under an empty key."""
        value = names.only_value(saved, self.definitions) if isinstance(saved, ast.Name) else saved
        value = value or self.value_at(saved)
        if isinstance(value, ast.Dict):
            keys = (key.value if isinstance(key, ast.Constant) else "" for key in value.keys)
            yield from ((str(key), item) for key, item in zip(keys, value.values, strict=True))
        elif isinstance(value, ast.Call) and called_name(value) == "dict":
            yield from ((item.arg or "", item.value) for item in value.keywords)
        else:
            yield "", saved

    def value_at(self, name: ast.expr, depth: int = 3) -> ast.expr | None:
        """The last value bound to a name before it is read, in the statements before; None if it is not known."""
        if not isinstance(name, (ast.Name, ast.Attribute)):
            return name
        inner: ast.AST = self.tree.statement(name)
        while isinstance(inner, ast.stmt):
            for statement in reversed(self.tree.before(inner)):
                value = _bound_by(statement, name)
                if value is not None:
                    return self.value_at(value, depth - 1) if depth else None
                if any(_binds(item, name) for item in walk(statement)):
                    return None  # on some path only
            parent = self.tree.parent(inner)
            while parent is not None and not isinstance(parent, ast.stmt):
                parent = self.tree.parent(parent)
            if parent is None or isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
            if isinstance(parent, LOOPS) and any(_binds(item, name) for item in walk(parent)):
                return None
            inner = parent
        return None

    def prefix(self, network: ast.expr, depth: int = 3) -> str:
        """The prefix that a wrapper around a network adds to the names of its parameters."""
        value = self.value_at(network) or self.stored(network)
        if value is None and depth and (given := self.given(network)):
            prefixes = {self.prefix(item, depth - 1) for item in given}
            return prefixes.pop() if len(prefixes) == 1 else ""
        value = without_calls(value, _SAME) if value is not None else None
        return self.prefix_of(value) if isinstance(value, ast.Call) else ""

    def prefix_of(self, call: ast.Call) -> str:
        """The prefix that the wrapper built by a call adds to the names of parameters; empty without a wrapper."""
        prefix = _PREFIXES.get(called_name(call), "")
        return prefix if prefix and self.definitions.named(call.func).startswith("torch") else ""

    def wrapper(self, name: ast.Name) -> ast.Call | None:
        """The call that wraps the value of a name, on some path to the place that reads it."""
        scope = self.tree.function_around(name)
        for node in self._wrapping:
            if node.lineno < name.lineno and (scope is None or scope in self.tree.ancestors(node)):
                if written_alike(node.targets[0], name) and isinstance(node.value, ast.Call):
                    return node.value
        return None

    @cached_property
    def _wrapping(self) -> list[ast.Assign]:
        """The assignments of wrapped modules."""
        assigns: Iterator[ast.Assign] = self.tree.of_type(ast.Assign)
        return [node for node in assigns if isinstance(node.value, ast.Call) and self.prefix_of(node.value)]


def _bound_by(statement: ast.AST, name: ast.expr) -> ast.expr | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.value if written_alike(statement.targets[0], name) else None
    return None


def _binds(node: ast.AST, name: ast.expr) -> bool:
    is_store = isinstance(getattr(node, "ctx", None), ast.Store)
    return is_store and dotted(node) == dotted(name)
