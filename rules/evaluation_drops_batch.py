"""Loaders of test data that drop the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import held_out, names, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

_EVALUATION = LazyPattern(
    r"(?i)(^|[_.])(test|val|valid|validation|eval|evaluation|dev)(_?(set|data|dataset|loader|dl|ds))?$"
)


class EvaluationDropsBatch(Rule):
    """A loader of test data drops the last batch and its samples.

    ## What it does
    Finds `drop_last=True` of a loader without shuffling for test or validation data. Both the variable and the dataset
    must say so: the dataset by its name, or by the split or folder that its call names. Preview: some programs need
    batches of one size, for `torch.compile` or for many processes.

    ## Why is this bad?
    The evaluation misses the samples of the last, incomplete batch. The accuracy then describes another test set. It
    changes with the batch size and is not comparable.

    ## Example
    ```python
    from torch.utils.data import DataLoader

    def loader(test_set):
        test_loader = DataLoader(test_set, batch_size=64, drop_last=True)
        return test_loader
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader

    def loader(test_set):
        test_loader = DataLoader(test_set, batch_size=64)
        return test_loader
    ```

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL613"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"drop_last",), (b"DataLoader",))

    def ask(self) -> Iterator[ast.keyword]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            given = {item.arg: item for item in call.keywords}
            drops = given.get("drop_last")
            if drops is None or not python_ast.is_literal(drops.value, True) or None in given:
                continue
            if names.imported(call.func, self.model.definitions) not in datasets.LOADERS or self._shuffles(given):
                continue
            size = given["batch_size"].value if "batch_size" in given else next(iter(call.args[1:]), None)
            if size is None or (isinstance(size, ast.Constant) and size.value in (1, None)):
                continue
            dataset = given["dataset"].value if "dataset" in given else next(iter(call.args), None)
            place = self._place(call)
            if self._is_test_data(dataset) and (place is None or _EVALUATION.search(place)):
                yield drops

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

    def report_keyword(self, drops: ast.keyword) -> None:
        self.report(
            python_ast.site_of(drops.value),
            "`drop_last=True` drops samples of the test data, so the evaluation never measures them",
            help="leave `drop_last` out",
        )
