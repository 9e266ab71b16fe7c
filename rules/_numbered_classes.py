"""Class numbers from the order of a listing that differ from the numbers of the same program elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import listings, names
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

_CLASSES = LazyPattern(r"(?i)class|categor|label|species|wnid|synset|(?:^|[._])cls")
"""Names of lists of classes."""
_FOLDERS = frozenset({"torchvision.datasets.ImageFolder", "torchvision.datasets.DatasetFolder"})
"""Datasets that number the sorted folders."""


class UnsortedNumbers(NamedTuple):
    """The code at `site` numbers the classes in the order of `listing`, but the code at `other` sorts them."""

    site: Site
    listing: Site
    other: Site


def unsorted_numbers(definitions: Definitions) -> Iterator[UnsortedNumbers]:
    """The class numbers of unsorted listings in a file that numbers sorted classes elsewhere."""
    found: list[tuple[ast.expr, ast.Call]] = []
    others: list[ast.AST] = [
        call for call in definitions.tree.of_type(ast.Call) if names.imported(call.func, definitions) in _FOLDERS
    ]
    for site, classes in _numberings(definitions):
        made = list(listings.chain(classes, definitions))
        listing, known = listings.listing(made[-1], definitions), (python_ast.dotted(item) for item in made)
        is_ordered = any(listings.is_ordered(item, definitions) for item in made)
        if listings.sorted_listing(made[-1], definitions) is not None or (listing is not None and is_ordered):
            others.append(site)
        elif listing is not None and any(map(_CLASSES.search, known)):
            found.append((site, listing))
    for site, listing in found if others else ():
        yield UnsortedNumbers(python_ast.site_of(site), python_ast.site_of(listing), python_ast.site_of(others[0]))


def _numberings(definitions: Definitions) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The expressions that number classes, each with the list of classes.

    These are `classes.index(name)` and `{name: i for i, name in enumerate(classes)}`.
    """
    for call in FileIndex.of(definitions.tree).calls_named("index"):
        if isinstance(call.func, ast.Attribute) and len(call.args) == 1:
            yield call, call.func.value
    for node in definitions.tree.of_type(ast.DictComp):
        counted = node.generators[0].iter
        is_counted = isinstance(counted, ast.Call) and python_ast.dotted(counted.func) == "enumerate"
        target = node.generators[0].target
        if isinstance(counted, ast.Call) and is_counted and counted.args and isinstance(target, ast.Tuple):
            if python_ast.written_alike(node.value, target.elts[0]):
                yield node, counted.args[0]
