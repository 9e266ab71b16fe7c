"""Data that are oversampled before the test set is split off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import held_out, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RESAMPLING = frozenset({"fit_resample", "fit_sample"})
_PACKAGES = ("imblearn.over_sampling.", "imblearn.combine.")
"""Packages whose samplers copy samples, or create new ones between existing ones."""


class Leaked(NamedTuple):
    """The samples made at `site` are split at `split`."""

    site: Site
    split: Site
    sampler: str
    name: str


class OversampledBeforeSplit(Rule):
    """Oversampling before the split puts copies of training samples into the test set.

    ## What it does
    Finds results of `fit_resample` of imbalanced-learn's samplers, such as `SMOTE` and `RandomOverSampler`, that the
    same function passes to `train_test_split`.

    ## Why is this bad?
    The sampler repeats samples of the rare classes, or mixes two of them. After a random split, most test samples of
    these classes have a copy in the training set. The model recalls them, and the test score is far too high.

    ## Example
    ```python
    import torch
    from imblearn.over_sampling import SMOTE
    from sklearn.model_selection import train_test_split

    def prepare(x, y):
        x, y = SMOTE().fit_resample(x, y)
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2)
        return torch.tensor(x_train), torch.tensor(x_test), y_train, y_test
    ```

    Use instead:
    ```python
    import torch
    from imblearn.over_sampling import SMOTE
    from sklearn.model_selection import train_test_split

    def prepare(x, y):
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2)
        x_train, y_train = SMOTE().fit_resample(x_train, y_train)
        return torch.tensor(x_train), torch.tensor(x_test), y_train, y_test
    ```

    ## References
    - [imbalanced-learn: common pitfalls](https://imbalanced-learn.org/stable/common_pitfalls.html)
    """

    code = "TL657"
    category = Category.CORRECTNESS
    triggers = ((b"fit_resample", b"fit_sample"), (b"train_test_split",), (b"imblearn",))

    def ask(self) -> Iterator[Leaked]:
        for statement in self.model.tree.of_type(ast.Assign) if not self.model.is_test else ():
            target, call = statement.targets[0], statement.value
            if not isinstance(call, ast.Call) or python_ast.called_name(call) not in _RESAMPLING:
                continue
            sampler = self._sampler(call)
            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
            name = python_ast.dotted(first)
            if not sampler or not name or held_out.is_named_training(name) or self._is_of_training(call):
                continue
            split = self._split(statement, name)
            if split is not None:
                yield Leaked(python_ast.site_of(call), python_ast.site_of(split), sampler, name)

    def _sampler(self, call: ast.Call) -> str:
        """The class of the sampler that a call applies, if it adds samples."""
        made = (
            written.value_of(call.func.value, self.model.definitions) if isinstance(call.func, ast.Attribute) else None
        )
        kind = names.imported(made.func, self.model.definitions) if isinstance(made, ast.Call) else ""
        return kind.rpartition(".")[2] if kind.startswith(_PACKAGES) else ""

    def _is_of_training(self, call: ast.Call) -> bool:
        """Whether a sampler gets a part of the data that is for training already."""
        given = [item for part in python_ast.arguments(call) for item in python_ast.names_read(part)]
        return any(map(held_out.is_named_training, given))

    def _split(self, made: ast.Assign, name: str) -> ast.Call | None:
        """The place behind a statement where the function splits a variable, before it gets another value."""
        scope = self.model.tree.scope_around(made)
        for node in names.own_nodes(scope):
            if getattr(node, "lineno", 0) <= made.lineno:
                continue
            if isinstance(node, ast.Call) and python_ast.called_name(node) == "train_test_split":
                if any(python_ast.dotted(item) == name for item in node.args):
                    return node
            elif isinstance(node, (ast.Name, ast.Attribute)) and not written.is_load(node):
                statement = self.model.tree.statement(node)
                is_split = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and (
                    python_ast.called_name(statement.value) == "train_test_split")  # fmt: skip
                if python_ast.dotted(node) == name and not is_split:
                    return None
        return None

    def report_Leaked(self, found: Leaked) -> None:
        self.report(
            found.site,
            f"`{found.sampler}` adds copies or mixtures to `{found.name}`, and some of them end up in the test set",
            related=[(found.split, "the data are split here")],
            help="split first, and oversample only the training data",
        )
