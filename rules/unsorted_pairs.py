"""Files that are paired by their position in two directory listings of arbitrary order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import listings, names
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

from ._numbered_classes import UnsortedNumbers, unsorted_numbers

_UNPAIRED = LazyPattern(r"(?i)(?:^|[._])(?:content|style|source|target|src|tgt|domain)")
"""Names of data without pairs."""


class UnsortedPair(NamedTuple):
    """The code at `site` pairs the lists made at `first` and `second` by position."""

    site: Site
    first: Site
    second: Site
    names: tuple[str, str]


class UnsortedPairs(Rule):
    """Files of two folders are paired by position in unsorted listings.

    ## What it does
    Finds two lists from `os.listdir`, `glob.glob` or `Path.glob` that nothing sorts, also two parts of one listing. A
    dataset takes their elements at the same index, or `zip` pairs them. Also finds classes that have the numbers of
    their places in an unsorted listing, if the file also numbers sorted classes, or uses `ImageFolder`, which sorts
    them.

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
        yield from unsorted_numbers(known)
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
