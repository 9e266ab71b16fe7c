"""Files that are paired by their position in two directory listings of arbitrary order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_LISTINGS = frozenset({"os.listdir", "os.scandir", "glob.glob", "glob.iglob"})
_OF_PATHS = frozenset({"glob", "rglob", "iterdir"})
_UNPAIRED = LazyPattern(r"(?i)(?:^|[._])(?:content|style|source|target|src|tgt|domain)")
"""Names of data without pairs."""
_STEPS = 6
_ORDERING = frozenset({"sort", "sorted", "natsorted", "humansorted"})


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
    dataset takes their elements at the same index, or `zip` pairs them.

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

    def ask(self) -> Iterator[UnsortedPair]:
        if self.model.is_test:
            return
        seen = set[tuple[str, str]]()
        for site, first, second in self._pairs():
            chains = [list(self._chain(item)) for item in (first, second)]
            listings = [self._listing(chain[-1]) for chain in chains]
            labels = python_ast.dotted(first), python_ast.dotted(second)
            orders = {ast.unparse(item) + _filter(chain) for item, chain in zip(listings, chains, strict=True) if item}
            if labels in seen or len(orders) < len(listings):
                continue
            if any(self._is_ordered(item) for item in (*chains[0], *chains[1])) or all(map(_UNPAIRED.search, labels)):
                continue
            seen.add(labels)
            made = [python_ast.site_of(item) for item in listings if item is not None]
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

    def _chain(self, node: ast.expr) -> Iterator[ast.expr]:
        """A list with the expressions that it comes from, the last one being its listing, if it is one."""
        for _ in range(_STEPS):
            yield node
            made = written.only_value(node, self.model.definitions)
            if made is None and isinstance(node, ast.ListComp) and len(node.generators) == 1:
                made = node.generators[0].iter
            if made is None and isinstance(node, ast.Call) and python_ast.dotted(node.func) in ("list", "tuple"):
                made = node.args[0] if len(node.args) == 1 else None
            if made is None:
                return
            node = made

    def _listing(self, made: ast.expr) -> ast.Call | None:
        """A call that lists a folder, or None for any other expression."""
        if not isinstance(made, ast.Call):
            return None
        is_listing = names.imported(made.func, self.model.definitions) in _LISTINGS
        return made if is_listing or self._is_of_path(made) else None

    def _is_of_path(self, call: ast.Call) -> bool:
        """Whether a call lists a `Path`: `Path(root).glob("*.png")`, `(root / "images").iterdir()`."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _OF_PATHS:
            return False
        owner = written.value_of(call.func.value, self.model.definitions)
        if isinstance(owner, ast.BinOp) and isinstance(owner.op, ast.Div):
            return True
        return isinstance(owner, ast.Call) and names.imported(owner.func, self.model.definitions) == "pathlib.Path"

    def _is_ordered(self, node: ast.expr) -> bool:
        """Whether code may sort a list later: `self.images.sort()`, or any call that gets the list."""
        name, known = python_ast.dotted(node), self.model.definitions
        for item in FileIndex.of(self.model.tree).calls_named(*_ORDERING) if name else ():
            owner = item.func.value if isinstance(item.func, ast.Attribute) else None
            is_same = "." in name or known.function_around(item) is known.function_around(node)
            if is_same and any(python_ast.dotted(given) == name for given in (owner, *item.args) if given is not None):
                return True
        return False

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


def _filter(chain: list[ast.expr]) -> str:
    """The condition with which a comprehension takes a part of a listing."""
    taken = (item for node in chain if isinstance(node, ast.ListComp) for item in node.generators[0].ifs)
    return " and ".join(map(ast.unparse, taken))
