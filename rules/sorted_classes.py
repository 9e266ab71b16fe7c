"""Folders of images that training or validation takes class by class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import batch_sums, held_out, names, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_TRAINING = LazyPattern(r"(?i)train|fit|epoch|backward")
"""Names of functions that train."""
_ORDERING = frozenset({"shuffle", "sampler", "batch_sampler", None})


class Sorted(NamedTuple):
    """The call at `site` takes samples of the folder at `made` in the order of their classes."""

    site: Site
    made: Site
    name: str
    is_part: bool


class SortedClasses(Rule):
    """The images of a folder are used in the order of their classes.

    ## What it does
    Finds uses of torchvision's `ImageFolder` or `DatasetFolder` that keep its order, in which all images of a class
    follow each other:

    - a training loader without `shuffle=True` or a sampler;
    - a validation set of the last samples: `Subset(images, range(n, len(images)))`.

    ## Why is this bad?
    Each batch contains a single class, so the model learns to predict the class of the latest batches, and batch
    statistics are those of one class. A validation set of the last samples contains classes that training never sees.

    ## Example
    ```python
    from torch.utils.data import DataLoader
    from torchvision import datasets

    train_set = datasets.ImageFolder("images/train")
    train_loader = DataLoader(train_set, batch_size=32)

    def train(model, optimizer, criterion):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader
    from torchvision import datasets

    train_set = datasets.ImageFolder("images/train")
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)

    def train(model, optimizer, criterion):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```

    ## References
    - [torchvision.datasets.ImageFolder](https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html)
    """

    code = "TL637"
    category = Category.SUSPICIOUS
    triggers = (
        (b"ImageFolder", b"DatasetFolder"),
        (b"DataLoader", b"Subset"),
        (b"backward",),
        (b"ntropy", b"criterion", b"nll", b"NLL", b"BCE"),
    )

    def ask(self) -> Iterator[Sorted]:
        for statement in [] if self.model.is_test else self.model.tree.of_type(ast.Assign):
            call, name = statement.value, python_ast.dotted(statement.targets[0])
            if not isinstance(call, ast.Call) or not name:
                continue
            kind = names.imported(call.func, self.model.definitions)
            if kind in datasets.LOADERS and held_out.is_named_training(name) and _keeps_order(call):
                yield from self._found(call, name, is_part=False)
            elif kind in datasets.SUBSETS and held_out.is_named_held_out(name):
                indices = written.argument(call, 1, "indices")
                if (
                    isinstance(indices, ast.Call)
                    and python_ast.dotted(indices.func) == "range"
                    and len(indices.args) == 2
                ):
                    if not isinstance(indices.args[0], ast.Constant):
                        yield from self._found(call, name, is_part=True)

    def _found(self, call: ast.Call, name: str, *, is_part: bool) -> Iterator[Sorted]:
        dataset = written.argument(call, 0, "dataset")
        made = written.value_of(dataset, self.model.definitions) if dataset is not None else None
        if not isinstance(made, ast.Call) or dataset is None:
            return
        kind = names.imported(made.func, self.model.definitions)
        if kind.startswith("torchvision.datasets.") and kind.endswith(("ImageFolder", "DatasetFolder")):
            if not self._is_reordered(python_ast.dotted(dataset)) and (is_part or self._trains(name)):
                yield Sorted(python_ast.site_of(call), python_ast.site_of(made), name, is_part)

    def _is_reordered(self, dataset: str) -> bool:
        """Whether code may change the list of samples: `random.shuffle(images.samples)`."""
        lists = (node for node in self.model.tree.of_type(ast.Attribute) if node.attr in ("samples", "imgs"))
        return any(python_ast.dotted(node.value) == dataset for node in lists)

    def _trains(self, loader: str) -> bool:
        """Whether the file trains on a loader: in a loop with labels and a backward pass, or in a function for it."""
        loops = [node for node in self.model.tree.of_type(ast.For) if batch_sums.iterated(node.iter) == loader]
        for loop in loops:
            targets = (item.id for item in python_ast.walk(loop.target) if isinstance(item, ast.Name))
            calls = [python_ast.called_name(item) for item in python_ast.walk(loop) if isinstance(item, ast.Call)]
            if any(name.startswith("_") for name in targets) or not any(_TRAINING.search(name) for name in calls):
                return False
        users = (call for call in self.model.tree.of_type(ast.Call) if _TRAINING.search(python_ast.called_name(call)))
        is_passed = any(python_ast.dotted(item) == loader for call in users for item in python_ast.arguments(call))
        return bool(loops) or is_passed

    def report_Sorted(self, found: Sorted) -> None:
        what = (
            "contains only the last classes"
            if found.is_part
            else "does not shuffle, so each batch holds a single class"
        )
        self.report(
            found.site,
            f"`{found.name}` {what}",
            related=[(found.made, "the folder is sorted by class")],
            help="split with `random_split`" if found.is_part else "pass `shuffle=True`",
        )


def _keeps_order(loader: ast.Call) -> bool:
    """Whether a loader keeps the order of its dataset."""
    given = [item for item in loader.keywords if item.arg in _ORDERING]
    is_off = all(item.arg == "shuffle" and getattr(item.value, "value", None) is False for item in given)
    return is_off and len(loader.args) < 3
