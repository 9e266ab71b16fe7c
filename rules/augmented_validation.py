"""Validation sets with random augmentation: parts of an augmented dataset, or datasets with the same transform."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import held_out, names, transforms, variables, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo, Definitions
    from torchlint.syntax.python_ast import Site

_REPEATED = LazyPattern(r"(?i)(?:^|_)tta(?:_|$)")
"""Names of test-time augmentation."""
_HELD_OUT = LazyPattern(r"(?i)(?:^|_|\.)(?:val\w*|valid\w*|test\w*|dev|eval\w*)(?:_|$)")


_TRANSFORM_ARGUMENT = {
    **dict.fromkeys(("ImageFolder", "STL10"), 1),
    **dict.fromkeys(("CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "KMNIST"), 2),
}
"""The positions of `transform` in datasets of torchvision."""
_TRANSFORMS = frozenset({"transform", "transforms"})
"""Parameters and attributes with the transform of a dataset."""
_DRAW = LazyPattern(r"^(?:np\.random|numpy\.random|random|torch)\.(?:rand\w*|uniform|choice|rand)$")
_MOVING = LazyPattern(r"^(?:[hv]?flip(?:_?lr|_?ud)?|rotate|affine|[hv]flip|rot90)$")
_MODE = LazyPattern(r"(?i)train|augment|mode|phase|split|^is_|eval|val|test|random|^p(?:rob)?$")
_PER_SAMPLE = ("__getitem__", "__call__")
"""The methods of a dataset and of a transform that give one sample."""


class _Part(NamedTuple):
    """The variable `name` gets the part that `call` takes of the dataset `made`."""

    call: ast.Call
    name: str
    made: ast.expr


class Augmented(NamedTuple):
    """The part `name` of the split or dataset at `site` gets the random transform at `random`."""

    site: Site
    random: Site
    name: str
    transform: str
    is_split: bool = True


class RandomTransform(NamedTuple):
    """The transform of the held-out data under `key` of a dictionary is random at `site`."""

    site: Site
    key: str
    transform: str


class AugmentedValidation(Rule):
    """The validation set gets the random augmentations of the training set.

    ## What it does
    Finds random transforms of validation or test data:

    - A part from `random_split` or `Subset` whose name says validation or test. The transform or `__getitem__` of its
      dataset is random, and nothing gives the part a separate dataset. For `Subset`, and for loaders with a `sampler`,
      the program must also train on another part of the same dataset. The program may define the transform: then its
      `__call__` draws random numbers and flips or rotates the sample.
    - A dataset that gets the transform of the training set, although it is for validation. Its name says so, and so
      does its folder, `split` or `train=False`. Its class is from torchvision, or applies the transform to each sample.
      Its `__init__` may also set one random transform for all splits.
    - Reported only with `--preview`: random crops, flips and rotations under a key such as `"val"`, beside the key
      `"train"`.

    ## Why is this bad?
    Each validation run sees different crops and flips. The score is too low and differs from run to run, and the best
    epoch is random.

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
    triggers = (
        (b"random_split", b"Subset", b"datasets", b"Dataset"),
        (b"torch",),
        (b"Random", b"rand", b"Jitter", b"Augment"),
    )

    def ask(self) -> Iterator[Augmented | RandomTransform]:
        if not self.model.is_test:
            yield from self._splits()
            yield from self._shared_parts()
            yield from self._datasets()
            yield from self._dictionaries()

    def _splits(self) -> Iterator[Augmented]:
        """Held-out parts of `random_split`."""
        for call in self.model.tree.of_type(ast.Call):
            if names.imported(call.func, self.model.definitions) not in datasets.SPLITS or not call.args:
                continue
            statement = self.model.tree.parent(call)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            parts = [python_ast.dotted(item) for item in target.elts] if isinstance(target, ast.Tuple) else []
            held = [item for item in parts if _HELD_OUT.search(item)]
            random = self._random(call.args[0]) if held else None
            if random is not None and not _is_replaced(held[0], call, self.model.definitions):
                yield Augmented(python_ast.site_of(call), python_ast.site_of(random), held[0], self._name_of(random))

    def _shared_parts(self) -> Iterator[Augmented]:
        """Held-out subsets and loaders of a dataset of which another part is for training."""
        parts = list(_parts_of(self.model.definitions))
        trained = [part.made for part in parts if not _HELD_OUT.search(part.name)]
        for part in parts:
            if _HELD_OUT.search(part.name) and any(part.made is made for made in trained):
                random = self._random(part.made)
                if random is not None and not _is_replaced_part(part, self.model.definitions):
                    sites = python_ast.site_of(part.call), python_ast.site_of(random)
                    yield Augmented(*sites, part.name, self._name_of(random))

    def _datasets(self) -> Iterator[Augmented]:
        """Datasets of held-out data with a transform that another dataset of the same class gets, too."""
        for statement in self.model.tree.of_type(ast.Assign):
            call, name = statement.value, python_ast.dotted(statement.targets[0])
            is_for_test = _HELD_OUT.search(name) and not _REPEATED.search(name)
            if not isinstance(call, ast.Call) or not is_for_test or not _is_held_out(call):
                continue
            random = self._random(call) if self._applies_transform(call) else None
            if random is None or not self._is_shared(call, random):
                continue
            if _is_replaced(name, call, self.model.definitions):
                continue
            sites = python_ast.site_of(call), python_ast.site_of(random)
            yield Augmented(*sites, name, self._name_of(random), is_split=False)

    def _dictionaries(self) -> Iterator[RandomTransform]:
        """Random transforms under a key for validation, beside those for training: `{"train": ..., "val": ...}`."""
        for node in self.model.tree.of_type(ast.Dict):
            entries = {getattr(key, "value", None): item for key, item in zip(node.keys, node.values, strict=True)}
            for key, item in entries.items() if "train" in entries else ():
                if isinstance(key, str) and _HELD_OUT.fullmatch(key):
                    random = transforms.first_of(item, transforms.GEOMETRIC, self.model.definitions)
                    if random is not None:
                        yield RandomTransform(python_ast.site_of(random), key, self._name_of(random))

    def _place(self, made: ast.Call) -> int:
        """The position of the transform among the arguments of a dataset."""
        kind = names.imported(made.func, self.model.definitions).removeprefix("torchvision.datasets.")
        info = self.model.definitions.class_named(python_ast.dotted(made.func))
        init = info.methods.get("__init__") if info is not None else None
        own = [index for index, name in enumerate(init.parameters if init is not None else ()) if name in _TRANSFORMS]
        return own[0] - 1 if own else _TRANSFORM_ARGUMENT.get(kind, len(made.args))

    def _applies_transform(self, call: ast.Call) -> bool:
        """Whether a dataset of torchvision or of the program applies its transform to all samples, in any mode."""
        if names.imported(call.func, self.model.definitions).startswith("torchvision.datasets."):
            return True
        info = self.model.definitions.class_named(python_ast.dotted(call.func))
        return info is not None and _applies_transform(info)

    def _is_shared(self, call: ast.Call, random: ast.expr) -> bool:
        """Whether a dataset of training data of the same class gets the same transform."""
        same = (item for item in self.model.tree.of_type(ast.Call) if ast.dump(item.func) == ast.dump(call.func))
        return any(self._random(item) is random and not _is_held_out(item) for item in same)

    def _random(self, dataset: ast.expr) -> ast.expr | None:
        """The random transform that a dataset gets where the code creates it, or that its class applies."""
        made = written.value_of(dataset, self.model.definitions)
        if not isinstance(made, ast.Call):
            return None
        given = [item.value for item in made.keywords if item.arg in ("transform", "transforms")]
        place = self._place(made)
        for value in [*given, *made.args[place : place + 1]]:
            return transforms.first_of(value, transforms.RANDOM, self.model.definitions) or self._random_of_program(
                value
            )
        return _random_call(made, self.model.definitions) or self._random_of_class(made)

    def _random_of_class(self, made: ast.Call) -> ast.expr | None:
        """The random transform that `__init__` of a dataset of the program sets, whatever its arguments."""
        info = self.model.definitions.class_named(python_ast.dotted(made.func))
        init = info.methods.get("__init__") if info is not None else None
        if info is None or init is None or init.definitions is not self.model.definitions:
            return None
        stores = [item for name in _TRANSFORMS for item in written.stores_of(name, info)]
        statement = self.model.tree.statement(stores[0]) if len(stores) == 1 else None
        is_certain = statement is not None and self.model.tree.parent(statement) is init.node
        if not isinstance(statement, ast.Assign) or not is_certain or not _applies_transform(info):
            return None
        if isinstance(statement.value, ast.IfExp):
            return None
        return transforms.first_of(statement.value, transforms.RANDOM, self.model.definitions)

    def _random_of_program(self, value: ast.expr) -> ast.expr | None:
        """The random draw of a transform that the program defines."""
        made = written.value_of(value, self.model.definitions)
        return _random_call(made, self.model.definitions) if isinstance(made, ast.Call) else None

    def _name_of(self, random: ast.expr) -> str:
        """The name of a random transform, or the random function that a dataset calls."""
        name = transforms.name_of(random, self.model.definitions)
        return name if name or not isinstance(random, ast.Call) else ast.unparse(random.func)

    def report_Augmented(self, found: Augmented) -> None:
        self.report(
            found.site,
            f"`{found.name}` shares the training part's {'dataset' if found.is_split else 'transform'}, "
            f"so `{found.transform}` augments it at random",
            related=[(found.random, "this transform is random")],
            help="create a dataset with a fixed transform for validation"
            + (", with the indices of the split" if found.is_split else ""),
        )

    def report_RandomTransform(self, found: RandomTransform) -> None:
        self.report(
            found.site,
            f"`{found.transform}` changes the data of `{found.key!r}` at random",
            help="use fixed transforms for validation: `Resize` and `CenterCrop`",
            confidence=Confidence.LOW,
        )


def _is_held_out(call: ast.Call) -> bool:
    """Whether a call creates the dataset of a validation or test folder or split, also by an argument's name."""
    texts = (item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str))
    return (held_out.is_held_out(call) or any(map(_HELD_OUT.fullmatch, texts))) or any(
        held_out.is_named_held_out(python_ast.dotted(item))
        for item in call.args + [each.value for each in call.keywords]
    )


def _parts_of(definitions: Definitions) -> Iterator[_Part]:
    """The subsets that code assigns to a name, and the loaders with samplers; changed datasets are left out."""
    for statement in definitions.tree.of_type(ast.Assign):
        call, name = statement.value, python_ast.dotted(statement.targets[0])
        if isinstance(call, ast.Call) and name and (dataset := _whole(call, definitions)) is not None:
            made = _value_before(dataset, definitions)
            if not _is_changed(python_ast.dotted(dataset), definitions):
                yield _Part(call, name, made)


def _whole(call: ast.Call, definitions: Definitions) -> ast.expr | None:
    """The dataset of a subset, or of a loader with a sampler."""
    kind = names.imported(call.func, definitions)
    inner = written.argument(call, 0, "dataset") if kind in datasets.LOADERS else None
    if isinstance(inner, ast.Call):
        return _whole(inner, definitions)
    if kind in datasets.SUBSETS:
        return written.argument(call, 0, "dataset")
    has_sampler = any(item.arg == "sampler" and not python_ast.is_literal(item.value, None) for item in call.keywords)
    return written.argument(call, 0, "dataset") if kind in datasets.LOADERS and has_sampler else None


def _random_call(made: ast.Call, definitions: Definitions) -> ast.expr | None:
    """The random draw by which the class of a dataset or transform changes each sample, whatever its mode.

    The change flips or turns the sample.
    """
    info = definitions.class_named(python_ast.dotted(made.func))
    found = (info.methods.get(name) for name in _PER_SAMPLE) if info is not None else ()
    method = next((item for item in found if item is not None), None)
    if method is None or method.definitions is not definitions:
        return None
    nodes = list(python_ast.walk(method.node))
    own = (node for node in nodes if isinstance(node, ast.Attribute) and python_ast.dotted(node.value) == "self")
    if any(_MODE.search(node.attr) for node in own):
        return None
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    draws = [node for node in calls if _DRAW.search(python_ast.dotted(node.func))]
    is_moved = any(_MOVING.search(python_ast.called_name(node)) for node in calls)
    return draws[0] if draws and is_moved else None


def _applies_transform(info: ClassInfo) -> bool:
    """Whether the class of a dataset applies its transform to each sample, whatever its mode."""
    method = info.method("__getitem__")
    if method is None:
        return False
    nodes = list(python_ast.walk(method.node))
    applied = (node for node in nodes if isinstance(node, ast.Call))
    tests = [node.test for node in nodes if isinstance(node, (ast.If, ast.IfExp))]
    return any(python_ast.dotted(node.func) in ("self.transform", "self.transforms") for node in applied) and not any(
        isinstance(item, (ast.Name, ast.Attribute)) and _MODE.search(python_ast.last_name(item))
        for test in tests
        for item in python_ast.walk(test)
    )


def _value_before(node: ast.expr, definitions: Definitions) -> ast.expr:
    """The meaning of an expression; for a variable bound several times in one block, its last value before the use."""
    if not isinstance(node, ast.Name):
        return written.value_of(node, definitions)
    last = variables.value_before(node, definitions)
    return last if last is not None else written.value_of(node, definitions)


def _is_changed(dataset: str, definitions: Definitions) -> bool:
    """Whether code calls a method of a dataset or sets its attribute, or sets the transform of any other object."""
    for node in definitions.tree.of_type(ast.Attribute):
        owner, around = python_ast.dotted(node.value), definitions.tree.parent(node)
        if owner == dataset and isinstance(around, ast.Call) and around.func is node:
            return True
        if not written.is_load(node) and owner != "self" and (owner == dataset or node.attr.startswith("transform")):
            return True
    return False


def _is_replaced_part(part: _Part, definitions: Definitions) -> bool:
    """Whether the program may replace a subset's dataset; a loader keeps its dataset."""
    is_subset = names.imported(part.call.func, definitions) in datasets.SUBSETS
    return is_subset and _is_replaced(part.name, part.call, definitions)


def _is_replaced(part: str, made: ast.Call, definitions: Definitions) -> bool:
    """Whether the program may replace a part's transform or dataset: `val_set.dataset = ...`, `Subset(...)`."""
    for node in definitions.tree.of_type(ast.Name, ast.Attribute):
        if python_ast.dotted(node) != part or (isinstance(node, ast.Name) and _is_elsewhere(node, made, definitions)):
            continue
        around = definitions.tree.parent(node)
        if isinstance(around, ast.Attribute) and around.attr in ("dataset", "indices", "transform"):
            return True
        if isinstance(around, ast.Call) and python_ast.called_name(around) not in ("len", "DataLoader", "print"):
            return True
    return False


def _is_elsewhere(name: ast.Name, made: ast.Call, definitions: Definitions) -> bool:
    """Whether a name in another function is another variable than that of a function's dataset."""
    function = definitions.function_around(made)
    return function is not None and definitions.function_around(name) is not function
