"""Loaders of test data that drop the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import held_out, names, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_EVALUATION = LazyPattern(
    r"(?i)(^|[_.])(test|val|valid|validation|eval|evaluation|dev)(_?(set|data|dataset|loader|dl|ds))?$"
)


class Dropped(NamedTuple):
    """The value `True` for `drop_last` of evaluation data; `is_chosen` if the program sets it for this split alone."""

    site: Site
    is_chosen: bool


class EvaluationDropsBatch(Rule):
    """A loader of test data drops the last batch and its samples.

    ## What it does
    Finds `drop_last=True` for a loader that reads test or validation data without shuffling:

    - `if flag == "test": drop_last = True`, where the loader receives this variable;
    - options by split, `{"test": {"drop_last": True}}`, where the loader receives `**options[flag]`;
    - a loader whose variable and dataset both refer to test or validation data. The dataset does so by its name, split
      or folder.

    torchlint reports the last form only with `--preview`, because some programs need batches of equal size for
    `torch.compile` or for multiple processes.

    ## Why is this bad?
    The evaluation misses the samples of the last, incomplete batch. The accuracy then describes a different test set.
    That set changes with the batch size, so results from different batch sizes are not comparable.

    ## Example
    ```python
    from torch.utils.data import DataLoader

    def make_loader(dataset, flag):
        if flag == "test":
            drop_last = True
        else:
            drop_last = False
        return DataLoader(dataset, batch_size=64, drop_last=drop_last)
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader

    def make_loader(dataset):
        return DataLoader(dataset, batch_size=64)
    ```

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL613"
    category = Category.SUSPICIOUS
    triggers = ((b"drop_last",), (b"DataLoader",))

    def ask(self) -> Iterator[Dropped]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            given = {item.arg: item for item in call.keywords}
            if names.imported(call.func, self.model.definitions) not in datasets.LOADERS:
                continue
            drops = given.get("drop_last")
            if drops is not None and isinstance(drops.value, ast.Name):
                yield from self._by_switch(drops.value)
            elif drops is None and None in given:
                yield from self._by_table(given[None].value)
            elif drops is not None and self._is_for_evaluation(call, given):
                yield Dropped(python_ast.site_of(drops.value), False)

    def _by_switch(self, name: ast.Name) -> Iterator[Dropped]:
        """The values of a variable that a test for the split sets: `if flag == "test": drop_last = True`."""
        function = self.model.definitions.function_around(name)
        for target in FileIndex.of(self.model.tree).bindings_of(name.id):
            statement = self.model.tree.parent(target)
            branch = self.model.tree.parent(statement) if isinstance(statement, ast.Assign) else None
            if isinstance(branch, ast.If) and self.model.definitions.function_around(target) is function:
                values = {python_ast.dotted(item.targets[0]): item.value for item in branch.body
                          if isinstance(item, ast.Assign)}  # fmt: skip
                is_own = statement in branch.body and _asks_for_evaluation(branch.test)
                if not is_own or not _drops(values, name.id) or self._is_reset(target, branch, name):
                    continue
                if isinstance(statement, ast.Assign):
                    yield Dropped(python_ast.site_of(statement.value), True)

    def _is_reset(self, target: ast.Name, branch: ast.If, loader: ast.Name) -> bool:
        """Whether code between a branch and the loader, or on a path to another loader, keeps the last batch again."""
        function = self.model.definitions.function_around(loader)
        for other in FileIndex.of(self.model.tree).bindings_of(target.id):
            statement = self.model.tree.parent(other)
            is_later = branch not in self.model.tree.ancestors(other) and other.lineno > branch.lineno
            is_kept = isinstance(statement, ast.Assign) and python_ast.is_literal(statement.value, False)
            if is_later and is_kept and self.model.definitions.function_around(other) is function:
                return True
        return False

    def _by_table(self, options: ast.expr) -> Iterator[Dropped]:
        """The options of a split in a dictionary that a loader receives: `**OPTIONS[flag]`."""
        table = python_ast.dotted(options.value) if isinstance(options, ast.Subscript) else ""
        for target in FileIndex.of(self.model.tree).bindings_of(table):
            for split, given in _entries(names.bound_value(target, self.model.tree)).items():
                values = _entries(given)
                if _EVALUATION.search(split) and _drops(values, "drop_last"):
                    yield Dropped(python_ast.site_of(values["drop_last"]), True)

    def _is_for_evaluation(self, call: ast.Call, given: dict[str | None, ast.keyword]) -> bool:
        """Whether a loader drops a batch, and its variable and dataset name data for an evaluation."""
        if None in given or not python_ast.is_literal(given["drop_last"].value, True) or self._shuffles(given):
            return False
        size = given["batch_size"].value if "batch_size" in given else next(iter(call.args[1:]), None)
        if size is None or (isinstance(size, ast.Constant) and size.value in (1, None)):
            return False
        dataset = given["dataset"].value if "dataset" in given else next(iter(call.args), None)
        place = self._place(call)
        return self._is_test_data(dataset) and (place is None or _EVALUATION.search(place) is not None)

    def _is_test_data(self, dataset: ast.expr | None) -> bool:
        """Whether the name of a dataset says test or validation, or its call names such a split or folder."""
        if dataset is None or _EVALUATION.search(python_ast.dotted(dataset)):
            return dataset is not None
        made = written.value_of(dataset, self.model.definitions)
        return isinstance(made, ast.Call) and held_out.is_held_out(made)

    def _shuffles(self, given: dict[str | None, ast.keyword]) -> bool:
        shuffle = given.get("shuffle")
        return shuffle is not None and not python_ast.is_literal(shuffle.value, False)

    def _place(self, call: ast.Call) -> str | None:
        """The variable or key that receives a loader, or None where it has no name."""
        around = self.model.tree.parent(call)
        target = around.targets[0] if isinstance(around, ast.Assign) else None
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            return str(target.slice.value)
        return python_ast.dotted(target) if target is not None else None

    def report_Dropped(self, found: Dropped) -> None:
        self.report(
            found.site,
            "`drop_last=True` drops samples of the test data, so the evaluation never sees them",
            help="set `drop_last` to False" if found.is_chosen else "leave `drop_last` out",
            confidence=Confidence.MEDIUM if found.is_chosen else Confidence.LOW,
        )


def _entries(table: ast.expr | None) -> dict[str, ast.expr]:
    """The values of a dictionary by their keys: `{"test": ...}`, `dict(test=...)`."""
    if isinstance(table, ast.Call) and python_ast.dotted(table.func) == "dict":
        return {item.arg: item.value for item in table.keywords if item.arg is not None}
    keys, values = (table.keys, table.values) if isinstance(table, ast.Dict) else ((), ())
    pairs = zip(keys, values, strict=True)
    return {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}


def _drops(values: Mapping[str, ast.expr], name: str) -> bool:
    """Whether options drop the last batch, which may have samples, and do not shuffle."""
    drops, size = values.get(name), values.get("batch_size")
    shuffles = any("shuffle" in key and not python_ast.is_literal(item, False) for key, item in values.items())
    is_single = isinstance(size, ast.Constant) and size.value in (1, None)
    return drops is not None and python_ast.is_literal(drops, True) and not shuffles and not is_single


def _asks_for_evaluation(test: ast.expr) -> bool:
    """Whether a test holds for a split of evaluation data only: `flag == "test"`, `flag in ("val", "test")`."""
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(test.ops[0], (ast.Eq, ast.In)):
        return False
    splits = [item for item in python_ast.walk(test.comparators[0]) if isinstance(item, ast.Constant)]
    return bool(splits) and all(isinstance(item.value, str) and _EVALUATION.search(item.value) for item in splits)
