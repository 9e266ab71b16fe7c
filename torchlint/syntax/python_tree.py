"""The tree of a file from Python's own parser: its nodes in order, the parent of each, and their places."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import takewhile
from typing import Any, overload

from torchlint.files.source import SourceFile
from torchlint.finding import Position, Span
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax.python_ast import (
    CHILD_FIELDS,
    COMPOUND,
    FUNCTIONS,
    LOOPS,
    SCOPES,
    TRIES,
    Elsewhere,
    FunctionNode,
    Site,
    Visit,
    dotted,
    elsewhere_of,
    list_children,
    own_site,
    site_of,
)
from torchlint.syntax.statement_lines import headers

_SCOPES = frozenset(SCOPES)
_EXPECTING = LazyPattern(r"(?i)raises|assert|suppress|expect|fail|warns")
_LISTED = frozenset({*SCOPES, *LOOPS})
"""Nodes that many rules search: their contents are listed once."""
_COMPOUND_NAMES = frozenset(kind.__name__ for kind in COMPOUND)


class PythonTree:
    """A module as parsed by Python."""

    def __init__(self, module: ast.Module, source: SourceFile) -> None:
        self.module = module
        self.source = source
        self.nodes: list[ast.AST] = []
        """Every node, the outer before the inner, the module first."""
        self.scopes: list[FunctionNode | ast.ClassDef] = []
        """The functions, lambdas and classes, the outer before the inner."""
        self.by_type: dict[type[ast.AST], list[ast.AST]] = {}
        self.index: object = None
        """The index of the file, created on first use."""
        self._parents: dict[ast.AST, ast.AST] = {}
        self._by_site: dict[str, dict[Site, ast.AST]] = {}
        self._known_functions: dict[ast.AST, ast.FunctionDef | ast.AsyncFunctionDef | None] = {}
        self._index()

    def _index(self) -> None:
        """Visit every node once: this takes most of the time per file, so it is one loop without calls."""
        nodes, parents, by_type, fields_of = self.nodes, self._parents, self.by_type, CHILD_FIELDS
        stack: list[Any] = [self.module]
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is int:  # the end of the nodes that began at this number
                nodes[node]._inside = tuple(nodes[node + 1 :])
                continue
            if kind in _LISTED:
                stack.append(len(nodes))
                if kind in _SCOPES:
                    self.scopes.append(node)
            nodes.append(node)
            same = by_type.get(kind)
            if same is None:
                by_type[kind] = [node]
            else:
                same.append(node)
            below = list_children(node) if fields_of[kind] else None
            if below:
                node._below = below
                for item in below:
                    parents[item] = node
                stack += below[::-1]

    def release(self) -> None:
        """Free the nodes of a tree that nothing uses any more.

        The nodes that values refer to would otherwise keep all others until the garbage collector visits each of them.
        """
        for node in self.nodes:
            node.__dict__.clear()
        if self.index is not None:
            self.index.__dict__.clear()
        self.__dict__.clear()

    def of_type(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of exactly these types, type by type, each in order."""
        for kind in kinds:
            yield from self.by_type.get(kind, ())

    def stand_elsewhere(self, visit: Visit) -> None:
        """Mark every node as part of a file other than the linted one."""
        place = Elsewhere(self, visit)
        for node in self.nodes:
            node._elsewhere = place  # type: ignore[attr-defined]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node; None for the module."""
        return self._parents_of(node).get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parents of a node, innermost first."""
        parents = self._parents_of(node)
        parent = parents.get(node)
        while parent is not None:
            yield parent
            parent = parents.get(parent)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parents of a node inside its function, lambda or class, innermost first."""
        return takewhile(lambda item: not isinstance(item, SCOPES), self.ancestors(node))

    def loop_around(self, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
        """The innermost loop around a node, in its own function; in its header also counts."""
        return next((item for item in self.around(node) if isinstance(item, LOOPS)), None)

    def expects_error(self, node: ast.AST) -> bool:
        """Whether code around a node may catch its error: `try`, `with pytest.raises(...)`."""
        around = [*self.ancestors(node)]
        withs = (part for item in around if isinstance(item, (ast.With, ast.AsyncWith)) for part in item.items)
        names = (dotted(part.context_expr.func) for part in withs if isinstance(part.context_expr, ast.Call))
        return any(isinstance(item, TRIES) for item in around) or any(map(_EXPECTING.search, names))

    def iterated(self, variable: ast.expr) -> ast.expr | None:
        """The iterable of the innermost `for` loop around an expression that is the loop's variable."""
        name = dotted(variable)
        loops = (item for item in self.ancestors(variable) if isinstance(item, ast.For))
        return next((item.iter for item in loops if dotted(item.target) == name), None)

    def assigned_to(self, target: ast.AST) -> ast.expr | None:
        """The expression that an assignment binds to a target, also to one of several: `0` for `b` in `a, b = 1, 0`."""
        parent = self.parent(target)
        if isinstance(parent, ast.Tuple):
            outer = self.parent(parent)
            if not isinstance(outer, ast.Assign) or not isinstance(outer.value, ast.Tuple):
                return None
            elements = outer.value.elts
            if len(parent.elts) != len(elements) or any(isinstance(item, ast.Starred) for item in elements):
                return None
            return next(value for item, value in zip(parent.elts, elements, strict=True) if item is target)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is not target:
            return parent.value
        return None

    def function_around(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function around a node, without lambdas; computed once for all nodes on the path."""
        known, passed, found = self._known_functions, [node], None
        for item in self.ancestors(node):
            if isinstance(item, FUNCTIONS):
                found = item
                break
            if item in known:
                found = known[item]
                break
            passed.append(item)
        known.update(dict.fromkeys(passed, found))
        return found

    def scope_around(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Module:
        """The function around a node, or the module."""
        return self.function_around(node) or self.module

    def _parents_of(self, node: ast.AST) -> dict[ast.AST, ast.AST]:
        """The parents in the file of a node."""
        elsewhere = elsewhere_of(node)
        return self._parents if elsewhere is None else elsewhere.tree._parents

    def statement(self, node: ast.AST) -> ast.AST:
        """The innermost statement around a node (the node itself if it is one)."""
        while not isinstance(node, ast.stmt):
            parent = self.parent(node)
            if parent is None:
                break
            node = parent
        return node

    def block(self, node: ast.AST) -> list[ast.AST]:
        """The block that contains the innermost statement of a node."""
        statement = self.statement(node)
        lists = [item for item in vars(self.parent(statement)).values() if isinstance(item, list)]
        return next((found for found in lists if statement in found), [])

    def before(self, node: ast.AST) -> list[ast.AST]:
        """The statements before the innermost one of a node, in its block."""
        statement, block = self.statement(node), self.block(node)
        return block[: block.index(statement)] if block else []

    def after(self, node: ast.AST) -> list[ast.AST]:
        """The statements after the innermost one of a node, in its block."""
        statement, block = self.statement(node), self.block(node)
        return block[block.index(statement) + 1 :] if block else []

    def stands_alone(self, node: ast.AST | None) -> bool:
        """Whether an expression is a statement of its own, with an unused value; None for a node of another file."""
        return node is not None and isinstance(self.parent(node), ast.Expr)

    # -- sites --------------------------------------------------------------------------------------

    @overload
    def node(self, site: Site) -> ast.AST: ...
    @overload
    def node(self, site: Site | None) -> ast.AST | None: ...
    def node(self, site: Site | None) -> ast.AST | None:
        """The node at a site, the outermost of several of a kind; None without a site."""
        if site is None:
            return None
        if site.inner is not None:
            return site.inner.tree.node(site.inner.site)
        if site.kind not in self._by_site:
            nodes = [node for kind, same in self.by_type.items() if kind.__name__ == site.kind for node in same]
            place = site_of if elsewhere_of(self.module) is None else own_site
            self._by_site[site.kind] = {place(node): node for node in reversed(nodes)}
        return self._by_site[site.kind][site]

    def own_node(self, site: Site | None) -> ast.AST | None:
        """The node at a site of this file; None if there is none, or it is in an imported file."""
        return self.node(site) if site is not None and site.inner is None else None

    @cached_property
    def statements(self) -> int:
        """The number of statements."""
        return sum(isinstance(node, ast.stmt) for node in self.nodes)

    def code(self, place: Site | ast.AST) -> str:
        """The source at a site, or of a node."""
        site = site_of(place) if isinstance(place, ast.AST) else place
        if site.inner is not None:
            return site.inner.tree.code(site.inner.site)
        lines = [line.encode() for line in self.source.program_lines[site.line - 1 : site.end_line]]
        lines[-1] = lines[-1][: site.end_column]
        lines[0] = lines[0][site.column :]
        return b"\n".join(lines).decode()

    def decorator_site(self, decorator: ast.expr) -> Site:
        """The site of a decorator, from its `@`; in another file the same as for any node."""
        if elsewhere_of(decorator) is not elsewhere_of(self.module):
            return site_of(decorator)
        line = self.source.program_lines[decorator.lineno - 1].encode()
        column = line.rindex(b"@", 0, decorator.col_offset)
        return site_of(decorator)._replace(kind="decorator", column=column)

    def span(self, site: Site) -> Span:
        """The text range of a site; for a compound statement its first line, as its body does not matter."""
        start = self._position(site.line, site.column)
        if site.kind in _COMPOUND_NAMES and site.end_line > site.line:
            return Span(start, Position(site.line + 1, 0))
        return Span(start, self._position(site.end_line, site.end_column))

    def _position(self, line: int, column: int) -> Position:
        text = self.source.program_lines[line - 1]
        return Position(line, column if text.isascii() else len(text.encode()[:column].decode()))

    def lines_around(self, span: Span) -> set[int]:
        """The lines of the statement in which a span starts (of a compound one the header's), and the span's own."""
        own = range(span.start.line, span.end.line + (span.end.column > 0 or span.end == span.start))
        return {*self._headers.get(span.start.line, ()), *own}

    @cached_property
    def _headers(self) -> dict[int, range]:
        return headers([node for node in self.nodes if isinstance(node, ast.stmt)])
