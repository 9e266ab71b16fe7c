"""Nodes of Python's own parser: their sites, their children, and their source."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from torchlint.syntax.python_tree import PythonTree

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
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)

_NO_CHILDREN = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop, ast.alias, ast.type_ignore)

_LEAVES = (ast.Name, ast.Constant, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
"""Nodes without relevant children."""
_NO_NODES = frozenset("ctx op ops attr arg kind type_comment conversion simple is_async".split())
"""Fields without nodes, in any class."""


class Site(NamedTuple):
    """The place of a node in its file, with its kind; columns are bytes of UTF-8, as in Python's `ast`.

    A node of another file has the site of the call that leads there, with `inner`, its own place.
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

    def is_of(self, *kinds: type[ast.AST]) -> bool:
        """Whether it is the site of a node of one of these classes."""
        return any(self.kind == kind.__name__ for kind in kinds)

    @property
    def here(self) -> Site:
        """The place in the linted file."""
        return self if self.inner is None else self._replace(inner=None)

    @property
    def file(self) -> str:
        """The name of the file that contains it; empty for the linted file."""
        return "" if self.inner is None else PurePath(self.inner.tree.source.path).name

    @property
    def written(self) -> Site:
        """The place in the file that contains it."""
        return self if self.inner is None else self.inner.site


class Inner(NamedTuple):
    """A place in a file that the linted one imports."""

    tree: PythonTree
    site: Site


class Visit:
    """A node for a visit to another file: the position of the interpretation in the linted file."""

    def __init__(self) -> None:
        self.at: ast.AST | None = None


class Elsewhere:
    """The file of a node, if it is not the linted one."""

    def __init__(self, tree: PythonTree, visit: Visit) -> None:
        self.tree = tree
        self._visit = visit

    def site(self, node: ast.AST) -> Site:
        at = self._visit.at
        here = Site("Module", 1, 0, 1, 0) if at is None else site_of(at)
        return here._replace(inner=Inner(self.tree, own_site(node)))


def site_of(node: ast.AST) -> Site:
    """The site of a node; that of an item of a `with` or a comprehension is the site of its first part."""
    fields = node.__dict__
    known: Site | None = fields.get("_site")
    if known is None:
        elsewhere: Elsewhere | None = fields.get("_elsewhere")
        if elsewhere is not None:
            return elsewhere.site(node)
        known = fields["_site"] = own_site(node)
    return known


def site_beside(node: ast.AST, site: Site | None) -> Site:
    """The site of a node in the same file as `site`, in another file at the same call that leads there."""
    if site is None or site.inner is None:
        return site_of(node)
    return site._replace(inner=Inner(site.inner.tree, own_site(node)))


def elsewhere_of(node: ast.AST) -> Elsewhere | None:
    """The file of a node, if it is not the linted one."""
    found: Elsewhere | None = node.__dict__.get("_elsewhere")
    return found


def placed_as(node: ast.AST, made: Node) -> Node:
    """A node made from another, at the other's position."""
    made.__dict__.update({name: node.__dict__[name] for name in ("_site", "_elsewhere") if name in node.__dict__})
    return ast.copy_location(made, node)


def own_site(node: ast.AST) -> Site:
    """The site of a node in the file that contains it."""
    kind, placed = node.__class__, _first_part(node)
    return _new_site(
        Site, (kind.__name__, placed.lineno, placed.col_offset, placed.end_lineno, placed.end_col_offset, None)
    )


_new_site = tuple.__new__
"""Makes a site faster than its class does."""


def _first_part(node: ast.AST) -> Any:
    kind = node.__class__
    if kind is ast.withitem:
        return node.context_expr  # type: ignore[attr-defined]
    return node.target if kind is ast.comprehension else node  # type: ignore[attr-defined]


def start_of(node: ast.AST) -> tuple[int, int]:
    """The line and column of a node."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def end_of(node: ast.AST) -> tuple[int, int]:
    """The line and column after a node."""
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` for a chain of names, `a` for `a[0]`, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    rest = ""
    while isinstance(node, ast.Attribute):
        rest = f".{node.attr}{rest}"
        node = node.value
    return node.id + rest if isinstance(node, ast.Name) else ""


def children(node: ast.AST) -> Sequence[ast.AST]:
    """The direct children of a node, without operators and contexts; listed once for a `PythonTree`."""
    known: Sequence[ast.AST] | None = node.__dict__.get("_below")
    return list_children(node) if known is None else known


def list_children(node: ast.AST) -> Sequence[ast.AST]:
    """The same, without the cache."""
    names = CHILD_FIELDS[node.__class__]
    if not names:
        return ()
    found: list[ast.AST] = []
    fields, counts = node.__dict__, _COUNTS
    for name in names:
        value: Any = fields.get(name)
        kind = value.__class__
        if kind is list:
            for item in value:
                if counts[item.__class__]:
                    found.append(item)
        elif counts[kind]:
            found.append(value)
    return found


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each class that may contain relevant nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = self[kind] = () if kind in _LEAVES else tuple(name for name in kind._fields if name not in _NO_NODES)
        return found


class _Counts(dict[type, bool]):
    """Whether a field's value of each class is a relevant node."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, ast.AST) and not issubclass(kind, _NO_CHILDREN)
        return found


CHILD_FIELDS = _Fields()
_COUNTS = _Counts()


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, the outer before the inner."""
    return chain((root,), inside(root))


def inside(root: ast.AST) -> Iterable[ast.AST]:
    """All nodes below a node, the outer before the inner; listed once for scopes and loops of a `PythonTree`."""
    known: tuple[ast.AST, ...] | None = root.__dict__.get("_inside")
    return _walked(root) if known is None else known


def _walked(root: ast.AST) -> Iterator[ast.AST]:
    stack = [*children(root)][::-1]
    while stack:
        node = stack.pop()
        yield node
        if below := children(node):
            stack += below[::-1]


def walk_outside(root: ast.AST, kinds: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """All nodes below a node, without the contents of nodes of these kinds; yields those nodes, too."""
    stack = [*children(root)][::-1]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, kinds):
            stack += [*children(node)][::-1]


def arguments(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call, by position and by name."""
    return [*call.args, *(item.value for item in call.keywords)]


def called_name(call: ast.Call) -> str:
    """The name of a call's method or function; empty for a callee without a name: `a[0]()`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def without_calls(node: ast.expr, methods: Collection[str]) -> ast.expr:
    """The object before a chain of calls to these methods: `x` of `x.detach().cpu()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
        node = node.func.value
    return node


def is_literal(node: ast.AST, value: bool | None) -> bool:
    """Whether a node is a literal `True`, `False` or `None`."""
    return isinstance(node, ast.Constant) and node.value is value


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name: `optimizer` for `self.optimizer`; empty for other expressions."""
    return dotted(node).rpartition(".")[2]


def names_in(node: ast.AST) -> set[str]:
    """The plain names in a node, read or bound: `a` and `c` for `a.b = c`."""
    return {item.id for item in walk(node) if isinstance(item, ast.Name)}


def names_bound(target: ast.expr) -> set[str]:
    """The dotted names that an assignment target binds: `a.b`, but not `a`, in `for a.b in x`."""
    return {dotted(item) for item in walk(target) if isinstance(getattr(item, "ctx", None), ast.Store)} - {""}


def names_read(node: ast.AST) -> set[str]:
    """The dotted names that an expression reads: `a.b` and `a` for `a.b.c()`, but not `b`, nor names that it binds."""
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
    """Whether two expressions are the same, whether read or assigned to."""
    if type(first) is not type(second):
        return False
    if isinstance(first, ast.Name) and isinstance(second, ast.Name) and first.id != second.id:
        return False
    if isinstance(first, ast.Attribute) and isinstance(second, ast.Attribute) and first.attr != second.attr:
        return False
    one, other = (ast.dump(node).replace("ctx=Store()", "ctx=Load()") for node in (first, second))
    return one == other


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and any(
        isinstance(item, ast.Name) and item.id == "__name__" for item in walk(test)
    )
