"""Validation sets with random augmentation, because they are part of an augmented dataset."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, transforms, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_HELD_OUT = LazyPattern(r"(?i)(?:^|_|\.)(?:val\w*|valid\w*|test\w*|dev|eval\w*)(?:_|$)")
_LIMIT = 4


class Augmented(NamedTuple):
    """The part `name` of the split at `site` gets the random transform at `random`."""

    site: Site
    random: Site
    name: str
    transform: str


class AugmentedValidation(Rule):
    """The validation set gets the random augmentations of the training set.

    ## What it does
    Finds `random_split` of a dataset whose transform is random, where the name of one part says validation or test, and
    nothing gives that part a separate dataset.

    ## Why is this bad?
    Both parts share the dataset and its transform. Each validation run sees other crops and flips. The score is too low
    and differs from run to run, and the best epoch is random.

    ## Example
    ```python
    from torch.utils.data import random_split
    from torchvision import datasets, transforms

    augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    images = datasets.ImageFolder("images", transform=augment)
    train_set, val_set = random_split(images, [0.8, 0.2])
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import Subset
    from torchvision import datasets, transforms

    augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    plain = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
    images = datasets.ImageFolder("images", transform=augment)
    order = torch.randperm(len(images)).tolist()
    count = len(images) * 8 // 10
    train_set = Subset(images, order[:count])
    val_set = Subset(datasets.ImageFolder("images", transform=plain), order[count:])
    ```

    ## References
    - [torch.utils.data.random_split](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split)
    """

    code = "TL626"
    category = Category.SUSPICIOUS
    triggers = ((b"random_split",), (b"torchvision",), (b"Random", b"Jitter", b"Augment"))

    def ask(self) -> Iterator[Augmented]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if names.imported(call.func, self.model.definitions) not in datasets.SPLITS or not call.args:
                continue
            statement = self.model.tree.parent(call)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            parts = [python_ast.dotted(item) for item in target.elts] if isinstance(target, ast.Tuple) else []
            held_out = [item for item in parts if _HELD_OUT.search(item)]
            random = self._random(call.args[0]) if held_out else None
            if random is not None and not self._is_replaced(held_out[0]):
                name = transforms.name_of(random, self.model.definitions)
                yield Augmented(python_ast.site_of(call), python_ast.site_of(random), held_out[0], name)

    def _random(self, dataset: ast.expr) -> ast.expr | None:
        """The random transform that a dataset gets where the code creates it."""
        made = written.value_of(dataset, self.model.definitions)
        if not isinstance(made, ast.Call):
            return None
        for keyword in made.keywords:
            if keyword.arg in ("transform", "transforms"):
                return transforms.first_of(keyword.value, transforms.RANDOM, self.model.definitions)
        return None

    def _is_replaced(self, part: str) -> bool:
        """Whether the program may replace a part's transform or dataset: `val_set.dataset = ...`, `Subset(...)`."""
        for node in self.model.tree.of_type(ast.Name, ast.Attribute):
            if python_ast.dotted(node) != part:
                continue
            around = self.model.tree.parent(node)
            if isinstance(around, ast.Attribute) and around.attr in ("dataset", "indices", "transform"):
                return True
            if isinstance(around, ast.Call) and python_ast.called_name(around) not in ("len", "DataLoader", "print"):
                return True
        return False

    def report_Augmented(self, found: Augmented) -> None:
        self.report(
            found.site,
            f"`{found.name}` shares the training part's dataset, so `{found.transform}` augments it at random",
            related=[(found.random, "this transform is random")],
            help="create a dataset with a fixed transform for validation, with the indices of the split",
        )
