"""Files that are paired by their position in two directory listings of arbitrary order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import listings, names
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_UNPAIRED = LazyPattern(r"(?i)(?:^|[._])(?:content|style|source|target|src|tgt|domain)")
"""Names of data without pairs."""

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


class UnsortedPair(NamedTuple):
    """The code at `site` pairs the lists made at `first` and `second` by position."""

    site: Site
    first: Site
    second: Site
    names: tuple[str, str]


class UnsortedPairs(Rule):
    """Files of two folders are paired by position in unsorted listings.

    ## What it does
    Finds two lists from `os.listdir`, `glob.glob` or `Path.glob` that nothing sorts, or two parts of one such listing.
    A dataset takes their elements at the same index, or `zip` pairs them. Also finds code that numbers the classes by
    their position in an unsorted listing, if other code of the file numbers them in sorted order, as `ImageFolder`
    does.

    Not reported if their names say that the data has no pairs: content and style, or the source and target of a
    domain adaptation.

    ## Why is this bad?
    The order of a listing is arbitrary. It differs between folders, file systems and machines. Images get the masks or
    labels of other images. There is no error, and the model learns from noise, perhaps only on some machines.

    ## Example
    ```python
    import os
    from torch.utils.data import Dataset

    class Pairs(Dataset):
        def __init__(self, images, masks):
            self.images = os.listdir(images)
            self.masks = os.listdir(masks)

        def __getitem__(self, index):
            return self.images[index], self.masks[index]
    ```

    Use instead:
    ```python
    import os
    from torch.utils.data import Dataset

    class Pairs(Dataset):
        def __init__(self, images, masks):
            self.images = sorted(os.listdir(images))
            self.masks = sorted(os.listdir(masks))

        def __getitem__(self, index):
            return self.images[index], self.masks[index]
    ```

    ## References
    - [os.listdir](https://docs.python.org/3/library/os.html#os.listdir): "The list is in arbitrary order"
    """

    code = "TL621"
    category = Category.CORRECTNESS
    triggers = ((b"listdir", b"glob", b"scandir", b"iterdir"), (b"torch",))

    def ask(self) -> Iterator[UnsortedPair | UnsortedNumbers]:
        if self.model.is_test:
            return
        known, seen = self.model.definitions, set[tuple[str, str]]()
        yield from _unsorted_numbers(known)
        for site, first, second in self._pairs():
            chains = [list(listings.chain(item, known)) for item in (first, second)]
            found = [listings.listing(chain[-1], known) for chain in chains]
            labels = python_ast.dotted(first), python_ast.dotted(second)
            orders = {ast.unparse(item) + _filter(chain) for item, chain in zip(found, chains, strict=True) if item}
            if labels in seen or len(orders) < len(found):
                continue
            if any(listings.is_ordered(item, known) for item in (*chains[0], *chains[1])) or all(
                map(_UNPAIRED.search, labels)
            ):
                continue
            seen.add(labels)
            made = [python_ast.site_of(item) for item in found if item is not None]
            yield UnsortedPair(python_ast.site_of(site), made[0], made[1], labels)

    def _pairs(self) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
        """Two names that the code pairs by `zip`, or by one index in one function."""
        tree = self.model.tree
        for call in FileIndex.of(tree).calls_named("zip"):
            if isinstance(call.func, ast.Name) and len(call.args) == 2 and not call.keywords:
                yield call, call.args[0], call.args[1]
        for method in (info for info in self.model.definitions.functions.values() if info.name == "__getitem__"):
            index = method.parameters[1] if len(method.parameters) > 1 else ""
            taken: dict[str, ast.Subscript] = {}
            for node in names.own_nodes(method.node):
                if isinstance(node, ast.Subscript) and python_ast.dotted(node.slice) == index:
                    taken.setdefault(python_ast.dotted(node.value), node)
            items = [node for name, node in taken.items() if name.startswith("self.")]
            for item in items[1:]:
                yield item, items[0].value, item.value

    def report_UnsortedPair(self, found: UnsortedPair) -> None:
        first, second = found.names
        what = f"`{first}` and `{second}`" if first and second else "the two lists"
        self.report(
            found.site,
            f"{what} are paired by position, but the order of both listings is arbitrary",
            related=[(found.first, "this lists one folder"), (found.second, "this lists the other folder")]
            if found.first != found.second
            else [(found.first, "both are parts of this listing")],
            help="sort both: `sorted(os.listdir(folder))`",
        )

    def report_UnsortedNumbers(self, found: UnsortedNumbers) -> None:
        self.report(
            found.site,
            "the numbers of the classes depend on the arbitrary order of a listing",
            related=[(found.listing, "this lists the classes"), (found.other, "the classes are sorted here")],
            help="sort the classes: `sorted(os.listdir(folder))`",
        )


def _filter(chain: list[ast.expr]) -> str:
    """The condition with which a comprehension takes a part of a listing."""
    taken = (item for node in chain if isinstance(node, ast.ListComp) for item in node.generators[0].ifs)
    return " and ".join(map(ast.unparse, taken))


def _unsorted_numbers(definitions: Definitions) -> Iterator[UnsortedNumbers]:
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
