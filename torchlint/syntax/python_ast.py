"""The tree of Python's own parser: its nodes in order, the parent of each, and where they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, TypeVar, overload

from torchlint.files.source import SourceFile
from torchlint.finding import Position, Span
from torchlint.syntax.statement_lines import headers

TRIES = (ast.Try, *((ast.TryStar,) if hasattr(ast, "TryStar") else ()))
COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Match,
    *TRIES,
)
"""Statements that hold others."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Node = TypeVar("Node", bound=ast.AST)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
LOOPS = (ast.For, ast.AsyncFor, ast.While)
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)

_LISTED = frozenset({*SCOPES, *LOOPS})
"""What many rules look through: what is in it is listed once."""
_COMPOUND_NAMES = frozenset(kind.__name__ for kind in COMPOUND)
_NO_CHILDREN = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop, ast.alias, ast.type_ignore)

_LEAVES = (ast.Name, ast.Constant, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
"""Nodes below which there is none that counts."""
_NO_NODES = frozenset("ctx op ops attr arg kind type_comment conversion simple is_async".split())
"""Fields in which there is none, in any class."""


class Site(NamedTuple):
    """Where a node stands in its file, and of what kind it is; columns are bytes of UTF-8, as Python's `ast` counts.

    What stands in another file has the site of the call that is followed there, with `inner`, its own place.
    """

    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    inner: Inner | None = None

    @property
    def start(self) -> tuple[int, int]:
        return self.line, self.column

    @property
    def here(self) -> Site:
        """The place in the file that is linted."""
        return self if self.inner is None else self._replace(inner=None)

    @property
    def written(self) -> Site:
        """The place in the file that it stands in."""
        return self if self.inner is None else self.inner.site


class Inner(NamedTuple):
    """A place in a file that the linted one imports."""

    tree: PythonTree
    site: Site


class Visit:
    """Where the interpretation of a file is under way, as long as that leads through others: a node of its own."""

    def __init__(self) -> None:
        self.at: ast.AST | None = None


class Elsewhere:
    """The file that a node stands in, where that is not the linted one."""

    def __init__(self, tree: PythonTree, visit: Visit) -> None:
        self.tree = tree
        self._visit = visit

    def site(self, node: ast.AST) -> Site:
        at = self._visit.at
        here = Site("Module", 1, 0, 1, 0) if at is None else site_of(at)
        return here._replace(inner=Inner(self.tree, _own_site(node)))


def site_of(node: ast.AST) -> Site:
    """The site of a node; that of an item of a `with` or a comprehension is the site of its first part."""
    known = node.__dict__.get("_site")
    if known is None:
        elsewhere = elsewhere_of(node)
        if elsewhere is not None:
            return elsewhere.site(node)
        known = _own_site(node)
        node._site = known  # type: ignore[attr-defined]
    assert isinstance(known, Site)
    return known


def elsewhere_of(node: ast.AST) -> Elsewhere | None:
    """The file that a node stands in, if that is not the linted one."""
    found: Elsewhere | None = node.__dict__.get("_elsewhere")
    return found


def placed_as(node: ast.AST, made: Node) -> Node:
    """What was made of a node, which stands where that does."""
    made.__dict__.update({name: node.__dict__[name] for name in ("_site", "_elsewhere") if name in node.__dict__})
    return ast.copy_location(made, node)


def _own_site(node: ast.AST) -> Site:
    placed: Any = _first_part(node)
    return Site(type(node).__name__, placed.lineno, placed.col_offset, placed.end_lineno, placed.end_col_offset)


def _first_part(node: ast.AST) -> ast.AST:
    if isinstance(node, ast.withitem):
        return node.context_expr
    return node.target if isinstance(node, ast.comprehension) else node


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` of a chain of names, `a` of `a[0]`, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Subscript):
        return dotted(node.value) if not parts else ""
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))


def children(node: ast.AST) -> Sequence[ast.AST]:
    """The nodes right below a node, without operators and contexts; those of a `PythonTree` are listed once."""
    known: tuple[ast.AST, ...] | None = node.__dict__.get("_below")
    return _listed(node) if known is None else known


def _listed(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    counts = _COUNTS
    for name in _FIELDS[type(node)]:
        value: Any = getattr(node, name, None)
        kind = type(value)
        if kind is list:
            found += [item for item in value if counts[type(item)]]
        elif counts[kind]:
            found.append(value)
    return found


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each class in which there may be nodes that count."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = self[kind] = () if kind in _LEAVES else tuple(name for name in kind._fields if name not in _NO_NODES)
        return found


class _Counts(dict[type, bool]):
    """Whether a value of each class in a field is a node that counts."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, ast.AST) and not issubclass(kind, _NO_CHILDREN)
        return found


_FIELDS = _Fields()
_COUNTS = _Counts()


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, the outer before the inner."""
    return chain((root,), inside(root))


def inside(root: ast.AST) -> Iterable[ast.AST]:
    """All below a node, the outer before the inner; of the scopes and loops of a `PythonTree` that is listed once."""
    known: tuple[ast.AST, ...] | None = root.__dict__.get("_inside")
    return _walked(root) if known is None else known


def _walked(root: ast.AST) -> Iterator[ast.AST]:
    stack = [*children(root)][::-1]
    while stack:
        node = stack.pop()
        yield node
        if below := children(node):
            stack += below[::-1]


def arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call, by position and by name."""
    return [*call.args, *(item.value for item in call.keywords)]


def called_name(call: ast.Call) -> str:
    """The name of the method or function that a call calls; empty of what has none: `a[0]()`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_literal(node: ast.AST, value: bool | None) -> bool:
    """Whether a node is `True`, `False` or `None`, written out."""
    return isinstance(node, ast.Constant) and node.value is value


def names_read(node: ast.AST) -> set[str]:
    """The dotted names that an expression reads: `a.b` of `a.b.c()`, and `a`, but not `b`, nor what it binds itself."""
    found: set[str] = set()
    bound: set[str] = set()
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, (ast.Name, ast.Attribute)):
            found.add(dotted(item))
        elif isinstance(item, ast.comprehension):
            bound.update(name.id for name in walk(item.target) if isinstance(name, ast.Name))
        stack.extend([item.value] if isinstance(item, ast.Attribute) else children(item))
    return {name for name in found if name.partition(".")[0] not in bound}


def written_alike(first: ast.AST, second: ast.AST) -> bool:
    """Whether two expressions are the same, be they read or assigned to."""
    one, other = (ast.dump(node).replace("ctx=Store()", "ctx=Load()") for node in (first, second))
    return one == other


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and any(
        isinstance(item, ast.Name) and item.id == "__name__" for item in walk(test)
    )


class PythonTree:
    """A module as Python's parser reads it."""

    def __init__(self, module: ast.Module, source: SourceFile) -> None:
        self.module = module
        self.source = source
        self.nodes: list[ast.AST] = []
        """Every node, the outer before the inner, the module first."""
        self.by_type: dict[type[ast.AST], list[ast.AST]] = {}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._by_site: dict[str, dict[Site, ast.AST]] = {}
        self._index()

    def _index(self) -> None:
        nodes, parents, by_type = self.nodes, self._parents, self.by_type
        stack: list[ast.AST | int] = [self.module]
        while stack:
            node = stack.pop()
            if isinstance(node, int):  # the end of what began at this number
                nodes[node]._inside = tuple(nodes[node + 1 :])  # type: ignore[attr-defined]
                continue
            kind = type(node)
            if kind in _LISTED:
                stack.append(len(nodes))
            nodes.append(node)
            if kind in by_type:
                by_type[kind].append(node)
            else:
                by_type[kind] = [node]
            below = _listed(node)
            node._below = tuple(below)  # type: ignore[attr-defined]
            if below:
                for item in below:
                    parents[item] = node
                below.reverse()
                stack += below

    def of_type(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of exactly these types, type by type, each in order."""
        for kind in kinds:
            yield from self.by_type.get(kind, ())

    def stand_elsewhere(self, visit: Visit) -> None:
        """Say of every node that it is not of the file that is linted."""
        place = Elsewhere(self, visit)
        for node in self.nodes:
            node._elsewhere = place  # type: ignore[attr-defined]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The parent of a node; None of the module."""
        return self._parents_of(node).get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parents of a node, innermost first."""
        parents = self._parents_of(node)
        parent = parents.get(node)
        while parent is not None:
            yield parent
            parent = parents.get(parent)

    def function_around(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function, lambdas aside, that a node stands in."""
        return next((item for item in self.ancestors(node) if isinstance(item, FUNCTIONS)), None)

    def _parents_of(self, node: ast.AST) -> dict[ast.AST, ast.AST]:
        """The parents in the file that a node stands in."""
        elsewhere = elsewhere_of(node)
        return self._parents if elsewhere is None else elsewhere.tree._parents

    def statement(self, node: ast.AST) -> ast.AST:
        """The innermost statement a node stands in (the node itself if it is one)."""
        while not isinstance(node, ast.stmt):
            parent = self.parent(node)
            if parent is None:
                break
            node = parent
        return node

    def block(self, node: ast.AST) -> list[ast.AST]:
        """The statements that the innermost statement of a node is one of."""
        statement = self.statement(node)
        lists = [item for item in vars(self.parent(statement)).values() if isinstance(item, list)]
        return next((found for found in lists if statement in found), [])

    def before(self, node: ast.AST) -> list[ast.AST]:
        """The statements before the innermost one of a node, in its block."""
        statement, block = self.statement(node), self.block(node)
        return block[: block.index(statement)] if block else []

    def stands_alone(self, node: ast.AST | None) -> bool:
        """Whether an expression is a statement of its own, so that nobody uses its value; None: it is not here."""
        return node is not None and isinstance(self.parent(node), ast.Expr)

    # -- sites --------------------------------------------------------------------------------------

    @overload
    def node(self, site: Site) -> ast.AST: ...
    @overload
    def node(self, site: Site | None) -> ast.AST | None: ...
    def node(self, site: Site | None) -> ast.AST | None:
        """The node at a site, the outermost where there are several of a kind; None where there is no site."""
        if site is None:
            return None
        if site.inner is not None:
            return site.inner.tree.node(site.inner.site)
        if site.kind not in self._by_site:
            nodes = [node for kind, same in self.by_type.items() if kind.__name__ == site.kind for node in same]
            self._by_site[site.kind] = {site_of(node).written: node for node in reversed(nodes)}
        return self._by_site[site.kind][site]

    def own_node(self, site: Site | None) -> ast.AST | None:
        """The node at a site of this file; None where there is none, or it is in a file that is imported."""
        return self.node(site) if site is not None and site.inner is None else None

    @cached_property
    def statements(self) -> int:
        """How many statements there are."""
        return sum(isinstance(node, ast.stmt) for node in self.nodes)

    def code(self, place: Site | ast.AST) -> str:
        """What is written at a site, or for a node."""
        site = site_of(place) if isinstance(place, ast.AST) else place
        if site.inner is not None:
            return site.inner.tree.code(site.inner.site)
        lines = [line.encode() for line in self.source.program_lines[site.line - 1 : site.end_line]]
        lines[-1] = lines[-1][: site.end_column]
        lines[0] = lines[0][site.column :]
        return b"\n".join(lines).decode()

    def decorator_site(self, decorator: ast.expr) -> Site:
        """The site of a decorator, from its `@`; of one in another file as of any node there."""
        if elsewhere_of(decorator) is not elsewhere_of(self.module):
            return site_of(decorator)
        line = self.source.program_lines[decorator.lineno - 1].encode()
        column = line.rindex(b"@", 0, decorator.col_offset)
        return site_of(decorator)._replace(kind="decorator", column=column)

    def span(self, site: Site) -> Span:
        """The text of a site; of a compound statement its first line, since its body is not the point."""
        start = self._position(site.line, site.column)
        if site.kind in _COMPOUND_NAMES and site.end_line > site.line:
            return Span(start, Position(site.line + 1, 0))
        return Span(start, self._position(site.end_line, site.end_column))

    def _position(self, line: int, column: int) -> Position:
        text = self.source.program_lines[line - 1]
        return Position(line, column if text.isascii() else len(text.encode()[:column].decode()))

    def lines_around(self, span: Span) -> set[int]:
        """The lines of the statement in which a span starts, of a compound one those of its header, and its own."""
        own = range(span.start.line, span.end.line + (span.end.column > 0 or span.end == span.start))
        return {*self._headers.get(span.start.line, ()), *own}

    @cached_property
    def _headers(self) -> dict[int, range]:
        return headers([node for node in self.nodes if isinstance(node, ast.stmt)])
