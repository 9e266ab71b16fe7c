"""Scopes: the imports in effect at each place, and the names that a function binds itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

from torchlint.index import FileIndex
from torchlint.syntax.python_ast import FunctionNode
from torchlint.syntax.python_tree import PythonTree

LOCAL = "<local>"
"""The prefix of qualified names that a function binds itself."""
_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OWN_OR_CLASS = frozenset({*_OWN, ast.ClassDef})
_NAMED = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar})
"""The nodes that bind their own name."""


class Scopes:
    """The imports of a module by their function; imports in classes count as the module's."""

    def __init__(self, tree: PythonTree) -> None:
        self._tree = tree
        self.imports: dict[str, str] = {}
        """The imports of the module: local name -> qualified name."""
        self.alternatives: dict[str, list[str]] = {}
        """All targets of a name's imports in order: the first one that exists is in effect."""
        self.imports_of: dict[ast.AST, dict[str, str]] = {}
        """The imports of functions."""
        self.star_imports: list[str] = []
        self._bound: dict[ast.AST, frozenset[str]] = {}
        for node in tree.of_type(ast.Import, ast.ImportFrom):
            self._add(node)

    def _add(self, node: ast.Import | ast.ImportFrom) -> None:
        function = next((item for item in self._tree.ancestors(node) if isinstance(item, _OWN)), None)
        for name, target in imported_by(node):
            if name == "*":
                self.star_imports.append(target)
            elif function is None or name in self._declared(function, ast.Global):
                self.imports[name] = target
                self.alternatives.setdefault(name, []).append(target)
            else:
                self.imports_of.setdefault(function, {})[name] = target

    def anywhere(self) -> dict[str, str]:
        """All imports, in any scope."""
        return {name: target for found in (*self.imports_of.values(), self.imports) for name, target in found.items()}

    def binding(self, name: str, at: ast.AST) -> str | None:
        """The binding of a name in the functions around a node: an import, `LOCAL`, or None for a module's name."""
        if name not in self._bound_anywhere:
            return None
        for function in self._around(at):
            target = self.imports_of.get(function, {}).get(name)
            if target is not None:
                return target
            if name in self._names_of(function):
                return LOCAL
        return None

    def _around(self, node: ast.AST) -> Iterator[FunctionNode]:
        """The functions whose bodies contain a node, the innermost first."""
        inner = node
        for item in self._tree.ancestors(node):
            if isinstance(item, _OWN):
                if inner in _body(item):
                    yield item
            inner = item

    @cached_property
    def _bound_anywhere(self) -> frozenset[str]:
        """The names that anything but an import of the module binds; most lookups are of other names."""
        imported = chain.from_iterable(self.imports_of.values())
        return frozenset(imported).union(name for _, name in self._bindings)

    @cached_property
    def _bindings(self) -> list[tuple[ast.AST, str]]:
        """Each node that binds a name by itself, with that name."""
        nodes = self._tree.of_type(ast.Name, ast.arg, *_NAMED)
        bound = [(node, name) for node in nodes if (name := _bound_by(node)) is not None]
        return [item for item in bound if item[0] not in self.stand_ins] if self.stand_ins else bound

    @cached_property
    def stand_ins(self) -> frozenset[ast.Name]:
        """The names that are bound to None in case their import fails: they mean the import."""
        return FileIndex.of(self._tree).stand_ins

    def _names_of(self, function: FunctionNode) -> frozenset[str]:
        """The names that a function binds, its parameters among them."""
        known = self._bound.get(function)
        if known is None:
            bound = self._bound_in.get(function, set())
            known = self._bound[function] = frozenset(bound - self._declared(function, ast.Global, ast.Nonlocal))
        return known

    def _declared(self, function: FunctionNode, *kinds: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
        """The names that a function declares `global` or `nonlocal`."""
        statements = self._declarations.get(function, ())
        return {name for node in statements if isinstance(node, kinds) for name in node.names}

    @cached_property
    def _bound_in(self) -> dict[FunctionNode, set[str]]:
        """The names that each function binds by itself, and those that it declares `global`."""
        found: dict[FunctionNode, set[str]] = {}
        for node, name in self._bindings:
            function = self._function_of(node)
            if function is not None:
                found.setdefault(function, set()).add(name)
        return found

    @cached_property
    def _declarations(self) -> dict[FunctionNode, list[ast.Global | ast.Nonlocal]]:
        """The `global` and `nonlocal` statements of each function."""
        found: dict[FunctionNode, list[ast.Global | ast.Nonlocal]] = {}
        for node in self._tree.of_type(ast.Global, ast.Nonlocal):
            function = self._function_of(node)
            if function is not None:
                found.setdefault(function, []).append(node)
        return found

    def is_of_module(self, node: ast.AST) -> bool:
        """Whether a node is in no function and no class."""
        return not any(type(item) in _OWN_OR_CLASS for item in self._tree.ancestors(node))

    def _function_of(self, node: ast.AST) -> FunctionNode | None:
        """The function whose parameters or body directly contain a node, without a scope in between."""
        inner = node
        for item in self._tree.ancestors(node):
            if type(item) in _OWN_OR_CLASS:
                return item if isinstance(item, _OWN) and _is_within(inner, item) else None
            inner = item
        return None


def imported_by(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, with its qualified name; `*` with its module."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            first = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname is not None else (first, first)
            continue
        base = "." * node.level + (node.module or "")
        dot = "" if base.endswith(".") else "."
        yield ("*", base) if alias.name == "*" else (alias.asname or alias.name, f"{base}{dot}{alias.name}")


def _body(function: FunctionNode) -> Sequence[ast.AST]:
    return [function.body] if isinstance(function, ast.Lambda) else function.body


def _is_within(inner: ast.AST, function: FunctionNode) -> bool:
    """Whether a node directly below a function is in its parameters or its body, not in its decorators."""
    return isinstance(function, ast.Lambda) or inner is function.args or isinstance(inner, ast.stmt)


def _bound_by(node: ast.AST) -> str | None:
    """The name that a node binds by itself."""
    if isinstance(node, ast.Name):
        return node.id if type(node.ctx) is ast.Store else None
    if isinstance(node, ast.arg):
        return node.arg
    name: str | None = getattr(node, "name", None)
    return name
