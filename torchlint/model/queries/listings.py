"""Listings of folders, whose order is arbitrary, and the lists that come from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions
from torchlint.model.queries import names, written
from torchlint.syntax.python_ast import dotted

_LISTINGS = frozenset({"os.listdir", "os.scandir", "glob.glob", "glob.iglob"})
_OF_PATHS = frozenset({"glob", "rglob", "iterdir"})
_ORDERING = frozenset({"sort", "sorted", "natsorted", "humansorted"})
_STEPS = 6


def chain(node: ast.expr, definitions: Definitions) -> Iterator[ast.expr]:
    """A list with the expressions that it comes from, the last one being its listing, if it is one."""
    for _ in range(_STEPS):
        yield node
        made = written.only_value(node, definitions)
        if made is None and isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1:
            made = node.generators[0].iter
        if made is None and isinstance(node, ast.Call) and dotted(node.func) in ("list", "tuple"):
            made = node.args[0] if len(node.args) == 1 else None
        if made is None:
            return
        node = made


def listing(made: ast.expr, definitions: Definitions) -> ast.Call | None:
    """A call that lists a folder, or None for any other expression."""
    if not isinstance(made, ast.Call):
        return None
    is_listing = names.imported(made.func, definitions) in _LISTINGS
    return made if is_listing or _is_of_path(made, definitions) else None


def sorted_listing(made: ast.expr, definitions: Definitions) -> ast.Call | None:
    """The listing that an expression sorts: `sorted(os.listdir(root))`."""
    if not isinstance(made, ast.Call) or dotted(made.func) != "sorted" or not made.args:
        return None
    return listing(list(chain(made.args[0], definitions))[-1], definitions)


def _is_of_path(call: ast.Call, definitions: Definitions) -> bool:
    """Whether a call lists a `Path`: `Path(root).glob("*.png")`, `(root / "images").iterdir()`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _OF_PATHS:
        return False
    owner = written.value_of(call.func.value, definitions)
    if isinstance(owner, ast.BinOp) and isinstance(owner.op, ast.Div):
        return True
    return isinstance(owner, ast.Call) and names.imported(owner.func, definitions) == "pathlib.Path"


def is_ordered(node: ast.expr, definitions: Definitions) -> bool:
    """Whether code may sort a list later: `self.images.sort()`, or any call that gets the list."""
    name = dotted(node)
    for item in FileIndex.of(definitions.tree).calls_named(*_ORDERING) if name else ():
        owner = item.func.value if isinstance(item.func, ast.Attribute) else None
        is_same = _are_together(item, node, definitions, is_attribute="." in name)
        if is_same and any(dotted(given) == name for given in (owner, *item.args) if given is not None):
            return True
    return False


def _are_together(node: ast.AST, other: ast.AST, definitions: Definitions, *, is_attribute: bool) -> bool:
    """Whether one name at two places may be one list: in one function, or an attribute outside unrelated classes."""
    if not is_attribute:
        return definitions.function_around(node) is definitions.function_around(other)
    methods = [definitions.method_around(item) for item in (node, other)]
    first, second = (item.owner if item is not None else None for item in methods)
    return first is None or second is None or first.is_related_to(second)
