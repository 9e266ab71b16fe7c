"""Test sets and test loaders that contain the training data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import held_out, names, uses, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_ON_PURPOSE = LazyPattern(r"(?i)over_?fit|debug|sanity|smoke")
"""Names of functions that check whether a model can learn at all."""
_SAMPLING = frozenset({"sampler", "batch_sampler"})
_HOOKS = frozenset({"train_dataloader", "val_dataloader", "test_dataloader"})
_SPLIT = LazyPattern(r"(?i)^(train|training|trn|val|valid|validation|test|dev|eval)$")
_MODE = LazyPattern(
    r"(?i)^(split|set|mode|phase|subset|partition|image_set|part|flag|type|dataset_type|data_type|stage)$"
)
_FREE = LazyPattern(r"(?i)transform|augment|aug$|shuffle|batch|worker|drop|crop|size|repeat|return")
_DATA = LazyPattern(r"(?i)set$|data$|ds$")
_PARTS = LazyPattern(r"(?i)split|subset|sampl|indices|index|fold|\bidx|debug|overfit|sanity|smoke|k_?means")


class EqualSplit(NamedTuple):
    """The datasets at `site` and `other`, for held-out data and for training, both name the split `split`."""

    site: Site
    other: Site
    split: str


class SameData(NamedTuple):
    """The variable `name` for held-out data gets the training data that `other`, made at `first`, has, too."""

    site: Site
    first: Site
    name: str
    other: str


class TrainingDataAsTest(Rule):
    """A validation or test set is the training set.

    ## What it does
    Finds validation or test data that are the training data. Reported only if another variable uses the same data for
    training:

    - `test_loader = DataLoader(train_set)`, without a sampler, directly or through a function of the repository;
    - `val_dataloader` of Lightning that returns the loader of the training set, where nothing reads the validation set;
    - `test_loader = DataLoader(data, sampler=train_sampler)`, with the sampler of the training loader;
    - `test_set = CIFAR10(root, train=True)`;
    - a dataset class of the repository that creates the training set and the validation set from the same split.

    ## Why is this bad?
    The score comes from data that the model may have memorized. Overfitting stays hidden, and the best weights are
    those that overfit most.

    ## Example
    ```python
    from torch.utils.data import DataLoader

    def loaders(train_set, test_set):
        train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
        test_loader = DataLoader(train_set, batch_size=64)
        return train_loader, test_loader
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader

    def loaders(train_set, test_set):
        train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
        test_loader = DataLoader(test_set, batch_size=64)
        return train_loader, test_loader
    ```
    """

    code = "TL640"
    category = Category.SUSPICIOUS
    triggers = ((b"torch",), (b"train",), (b"val", b"test", b"dev"), (b"DataLoader", b"ataset"))

    def ask(self) -> Iterator[SameData | EqualSplit]:
        if not self.model.is_test:
            yield from self._drawn()
            yield from _equal_splits(self.model)
        made = list(self._made()) if not self.model.is_test else []
        for name, call in made:
            if not held_out.is_named_held_out(name):
                continue
            for other, first in made:
                if held_out.is_named_training(other) and self._is_same(call, first) and self._is_beside(call, first):
                    yield SameData(python_ast.site_of(call), python_ast.site_of(first), name, other)
                    break

    def _made(self) -> Iterator[tuple[str, ast.Call]]:
        """The loaders and the datasets of torchvision that a variable or an entry of a dictionary gets."""
        for name, call in _bound(self.model):
            is_named = held_out.is_named_held_out(name) or held_out.is_named_training(name)
            if is_named and not any(item.arg in _SAMPLING for item in call.keywords):
                kind = names.imported(call.func, self.model.definitions)
                if kind.startswith("torchvision.datasets.") or self._loaded(call) is not None:
                    yield name, call

    def _drawn(self) -> Iterator[SameData]:
        """Loaders of held-out data with the sampler of the training loader."""
        drawn: dict[str, ast.Call] = {}
        for statement in self.model.tree.of_type(ast.Assign):
            call, name = statement.value, python_ast.dotted(statement.targets[0])
            sampler = self._subset_sampler(call) if isinstance(call, ast.Call) else ""
            if not isinstance(call, ast.Call) or not sampler:
                continue
            first = drawn.get(sampler)
            if first is None:
                drawn[sampler] = call if held_out.is_named_training(name) else drawn.get(sampler, call)
            elif held_out.is_named_held_out(name) and self._is_same_dataset(call, first):
                other = self.model.tree.statement(first)
                label = python_ast.dotted(other.targets[0]) if isinstance(other, ast.Assign) else ""
                if held_out.is_named_training(label) and self.model.tree.statement(first) in self.model.tree.block(
                    call
                ):
                    yield SameData(python_ast.site_of(call), python_ast.site_of(first), name, label)

    def _subset_sampler(self, call: ast.Call) -> str:
        """The variable of the sampler that draws a part of the training data for a loader."""
        if names.imported(call.func, self.model.definitions) not in datasets.LOADERS:
            return ""
        sampler = next((item.value for item in call.keywords if item.arg == "sampler"), None)
        name = sampler.id if isinstance(sampler, ast.Name) else ""
        made = written.value_of(sampler, self.model.definitions) if isinstance(sampler, ast.Name) else None
        is_part = isinstance(made, ast.Call) and python_ast.called_name(made) in datasets.SUBSET_SAMPLERS
        return name if is_part and held_out.is_named_training(name) else ""

    def _is_same_dataset(self, call: ast.Call, first: ast.Call) -> bool:
        own, other = (written.argument(item, 0, "dataset") for item in (call, first))
        return own is not None and other is not None and ast.dump(own) == ast.dump(other)

    def _loaded(self, call: ast.Call) -> ast.expr | None:
        """The dataset of a loader that a call makes: itself, or a function of the program."""
        if names.imported(call.func, self.model.definitions) in datasets.LOADERS:
            return written.argument(call, 0, "dataset")
        called = self.model.provenance.function_called(call)
        made = names.returned_value(called) if called is not None else None
        if called is None or not isinstance(made, ast.Call):
            return None
        is_loader = names.imported(made.func, called.definitions) in datasets.LOADERS
        dataset = written.argument(made, 0, "dataset") if is_loader else None
        is_whole = not any(item.arg in _SAMPLING or item.arg is None for item in made.keywords)
        name = dataset.id if is_whole and isinstance(dataset, ast.Name) else ""
        if name not in called.parameters or name in called.definitions.names_assigned([called.node]):
            return None
        return written.argument(call, called.parameters.index(name) - called.is_method, name)

    def _is_same(self, call: ast.Call, first: ast.Call) -> bool:
        """Whether two calls give the same data: loaders of one training set, or datasets with `train=True`."""
        if ast.dump(call.func) != ast.dump(first.func):
            return False
        own, others = map(self._loaded, (call, first))
        if not _are_settings(call, first):
            return False
        if own is not None:
            is_named = held_out.is_named_training(_place(own)) or self._is_training(own)
            return is_named and others is not None and ast.dump(own) == ast.dump(others)
        roots = [written.argument(item, 0, "root") for item in (call, first)]
        switches = [written.argument(item, 1, "train") for item in (call, first)]
        are_on = all(isinstance(item, ast.Constant) and item.value is True for item in switches)
        return are_on and len({ast.dump(item) for item in roots if item is not None}) == 1

    def _is_training(self, dataset: ast.expr) -> bool:
        """Whether a variable holds a dataset of the training split, or nothing reads the one of another split.

        `dataset = Scenes(root, "train")`, or `dataset = Scenes(paths)` beside `val_dataset = Scenes(other_paths)`.
        """
        made = written.value_of(dataset, self.model.definitions) if isinstance(dataset, ast.Name) else None
        if not isinstance(made, ast.Call):
            return False
        beside = (item for item in self.model.tree.block(made) if isinstance(item, ast.Assign))
        others = [item.targets[0] for item in beside if _is_same_class(item.value, made)]
        held = [item for item in others if isinstance(item, ast.Name) and held_out.is_named_held_out(item.id)]
        found = [uses.of_place(item, self.model) for item in held]
        unread = [item for item in found if item is not None and not any(map(self._is_read, item))]
        return bool(unread) or (not held and _names_training(made))

    def _is_read(self, use: ast.Name | ast.Attribute) -> bool:
        """Whether code reads the data of a variable: more than its length or a method of its class."""
        around = self.model.tree.parent(use)
        is_measured = isinstance(around, ast.Call) and python_ast.dotted(around.func) in ("len", "print")
        return written.is_load(use) and not is_measured and not isinstance(around, ast.Attribute)

    def _is_beside(self, call: ast.Call, first: ast.Call) -> bool:
        """Whether two calls are in one block, and nothing there takes a part of the data."""
        if isinstance(self.model.tree.statement(call), ast.Return):
            return self._has_unread(call, first)
        block = self.model.tree.block(call)
        around = self.model.definitions.function_around(call)
        if self.model.tree.statement(first) not in block or _ON_PURPOSE.search(around.name if around else ""):
            return False
        nodes = [node for statement in block for node in python_ast.walk(statement)]
        if any(isinstance(node, ast.keyword) and node.arg in _SAMPLING for node in nodes):
            return False
        words = {python_ast.dotted(item).rpartition(".")[2] for item in nodes if not _is_dataset(item)}
        return words.isdisjoint({"Subset", "random_split", "SubsetRandomSampler", "targets", "data", "indices"})

    def _has_unread(self, call: ast.Call, first: ast.Call) -> bool:
        """Whether two hooks of one class create the loaders, and nothing reads a held-out dataset of the object."""
        own, other = (self.model.definitions.method_around(item) for item in (call, first))
        if own is None or other is None or own.owner is None or own.owner is not other.owner:
            return False
        nodes = (item for item in python_ast.walk(own.owner.node) if isinstance(item, ast.Attribute))
        held = {item.attr: item for item in nodes if not written.is_load(item) and _DATA.search(item.attr)}
        found = (uses.of_place(item, self.model) for name, item in held.items() if held_out.is_named_held_out(name))
        return any(places and not any(map(written.is_load, places)) for places in found)

    def report_EqualSplit(self, found: EqualSplit) -> None:
        self.report(
            found.site,
            f"training and evaluation both use the split {found.split!r}",
            related=[(found.other, "this is the same split")],
            help="name the other split",
        )

    def report_SameData(self, found: SameData) -> None:
        self.report(
            found.site,
            f"`{found.name}` contains the training data of `{found.other}`",
            related=[(found.first, "the training data are here")],
            help="use the validation or test data",
        )


def _is_dataset(node: ast.AST) -> bool:
    """Whether `data` names a dataset or a module, not the contents of a dataset."""
    return python_ast.dotted(node) in ("data", "torch.utils.data")


def _names_training(call: ast.Call) -> bool:
    """Whether a call names the training split: `Scenes(root, mode="train")`."""
    given = {item.arg: item.value for item in call.keywords}
    is_on = any(python_ast.is_literal(given[name], True) for name in ("train", "is_train") if name in given)
    words = (item.value for item in python_ast.arguments(call) if isinstance(item, ast.Constant))
    return is_on or any(item in ("train", "training") for item in words)


def _is_same_class(value: ast.expr, made: ast.Call) -> bool:
    return isinstance(value, ast.Call) and value is not made and ast.dump(value.func) == ast.dump(made.func)


def _bound(model: Model) -> Iterator[tuple[str, ast.Call]]:
    """The calls whose results a variable, an attribute or an entry gets, by name or key."""
    for statement in model.tree.of_type(ast.Assign):
        if isinstance(statement.value, ast.Call):
            yield _place(statement.targets[0]), statement.value
        elif isinstance(statement.value, ast.Dict):
            for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                if isinstance(value, ast.Call) and isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
    for info in model.definitions.classes.values():
        for name in _HOOKS & info.methods.keys():
            returned = names.returned_value(info.methods[name])
            if isinstance(returned, ast.Call):
                yield name, returned


def _place(node: ast.expr) -> str:
    """The name of a variable or attribute, or the key of an entry: `train` of `parts["train"]`."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else python_ast.dotted(node)


def _are_settings(call: ast.Call, first: ast.Call) -> bool:
    """Whether two calls unpack no dictionary, or the same settings without a sampler, because the first shuffles."""
    own, other = ([ast.dump(item.value) for item in each.keywords if item.arg is None] for each in (call, first))
    shuffles = any(item.arg == "shuffle" and python_ast.is_literal(item.value, True) for item in first.keywords)
    return (not own and not other) or (own == other and shuffles)


def _equal_splits(model: Model) -> Iterator[EqualSplit]:
    made = list(_made(model))
    for name, call, split in made:
        if not held_out.is_named_held_out(name):
            continue
        for other, first, same in made:
            if same == split and held_out.is_named_training(other) and _are_alike(call, first):
                if _are_together(call, first, model):
                    places = (call, first) if held_out.is_named_training(split) else (first, call)
                    sites = [python_ast.site_of(item) for item in places]
                    yield EqualSplit(sites[0], sites[1], split)
                    break


def _made(model: Model) -> Iterator[tuple[str, ast.Call, str]]:
    """The datasets of the program that name a split, with the name of their use."""
    for call in model.tree.of_type(ast.Call):
        splits = [item.value for item in call.keywords if item.arg and _MODE.search(item.arg)]
        info = model.definitions.class_named(python_ast.dotted(call.func)) if splits or call.args else None
        if info is None or info.method("__getitem__") is None:
            continue
        found = [item.value for item in [*splits, *call.args] if isinstance(item, ast.Constant)]
        words = [item for item in found if isinstance(item, str) and _SPLIT.search(item)]
        name = _use(call, model) if len(words) == 1 else ""
        if name:
            yield name, call, words[0]


def _use(call: ast.Call, model: Model) -> str:
    """The variable or the key of a dictionary that a dataset or its loader is for."""
    node: ast.AST = call
    for item in model.tree.ancestors(call):
        if isinstance(item, ast.Dict) and node in item.values:
            key = item.keys[item.values.index(node)]
            return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
        if isinstance(item, ast.Assign):
            return python_ast.dotted(item.targets[0])
        if not isinstance(item, (ast.Call, ast.keyword)):
            return ""
        node = item
    return ""


def _are_alike(call: ast.Call, first: ast.Call) -> bool:
    """Whether two calls create the same data, apart from transforms and settings of loaders."""
    if ast.dump(call.func) != ast.dump(first.func) or len(call.args) != len(first.args):
        return False
    pairs = zip(call.args, first.args, strict=True)
    if any(ast.dump(own) != ast.dump(other) and not _is_free(own) for own, other in pairs):
        return False
    own, other = ({item.arg: item.value for item in each.keywords} for each in (call, first))
    return all(
        name is not None
        and (_FREE.search(name) or (name in own and name in other and _is_equal(own[name], other[name])))
        for name in own.keys() | other.keys()
    )


def _is_equal(own: ast.expr, other: ast.expr) -> bool:
    return ast.dump(own) == ast.dump(other)


def _is_free(node: ast.expr) -> bool:
    return bool(_FREE.search(python_ast.dotted(node)))


def _are_together(call: ast.Call, first: ast.Call, model: Model) -> bool:
    """Whether one block or one dictionary creates both, and nothing there takes parts of the data."""
    own, other = model.tree.statement(call), model.tree.statement(first)
    if other is not own and other not in model.tree.block(call):
        return False
    scope = model.tree.scope_around(call)
    nodes = (item for item in python_ast.walk(scope) if isinstance(item, (ast.Name, ast.Attribute)))
    return not any(_PARTS.search(python_ast.last_name(item)) for item in nodes)
