"""Data scalers that are fitted before the data are split."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import held_out, names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Leaked(NamedTuple):
    """The scaler at `site` is fitted to data that the code splits at `split`."""

    site: Site
    split: Site
    name: str


class ScalerBeforeSplit(Rule):
    """A scaler is fitted to all data before the test set is split off.

    ## What it does
    Finds results of `fit_transform` of a scikit-learn scaler that the same function splits into training and test data
    afterwards, with `train_test_split` or by slices.

    ## Why is this bad?
    The mean and deviation contain the test data, so information leaks into training. For time series, the scale tells
    the model how far the future values reach, and the test error is too low.

    ## Example
    ```python
    import torch
    from sklearn.preprocessing import MinMaxScaler

    def prepare(series):
        values = MinMaxScaler().fit_transform(series)
        train, test = values[:800], values[800:]
        return torch.tensor(train), torch.tensor(test)
    ```

    Use instead:
    ```python
    import torch
    from sklearn.preprocessing import MinMaxScaler

    def prepare(series):
        train, test = series[:800], series[800:]
        scaler = MinMaxScaler()
        train = scaler.fit_transform(train)
        return torch.tensor(train), torch.tensor(scaler.transform(test))
    ```

    ## References
    - [scikit-learn: common pitfalls](https://scikit-learn.org/stable/common_pitfalls.html#data-leakage)
    """

    code = "TL638"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"fit_transform",), (b"sklearn",), (b"torch",))

    def ask(self) -> Iterator[Leaked]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            statement = self.model.tree.parent(call)
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "fit_transform" or len(call.args) != 1:
                continue
            name = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
            if name and self._is_scaler(call.func.value) and not self._is_of_training(call, name):
                split = self._split(call, name)
                if split is not None:
                    yield Leaked(python_ast.site_of(call), python_ast.site_of(split), name)

    def _is_scaler(self, node: ast.expr) -> bool:
        made = names.only_value(node, self.model.definitions) if isinstance(node, ast.Name) else node
        kind = names.imported(made.func, self.model.definitions) if isinstance(made, ast.Call) else ""
        return kind.startswith("sklearn.preprocessing.") and kind.endswith("Scaler")

    def _is_of_training(self, call: ast.Call, name: str) -> bool:
        """Whether the data are a training part already, or targets."""
        texts = [
            name,
            *(python_ast.dotted(item) for item in python_ast.walk(call.args[0]) if isinstance(item, ast.Name)),
        ]
        return any(
            held_out.is_named_training(item) or item.lower().startswith(("y", "label", "target")) for item in texts
        )

    def _split(self, call: ast.Call, name: str) -> ast.AST | None:
        """The place behind a call where the function splits a variable."""
        scope = self.model.tree.function_around(call) or self.model.tree.module
        for node in names.own_nodes(scope):
            if getattr(node, "lineno", 0) <= call.lineno:
                continue
            if isinstance(node, ast.Call) and python_ast.called_name(node) == "train_test_split":
                if any(isinstance(item, ast.Name) and item.id == name for item in node.args):
                    return node
            elif isinstance(node, ast.Assign) and _is_end_of(node, name):
                return node
        return None

    def report_Leaked(self, found: Leaked) -> None:
        self.report(
            found.site,
            f"the scaler of `{found.name}` is fitted to the test data, too",
            related=[(found.split, "they are split off here")],
            help="split first, fit to the training data, and `transform` the test data",
        )


def _is_end_of(statement: ast.Assign, name: str) -> bool:
    """Whether an assignment gives held-out data the end of a variable: `test = values[n:]`."""
    target, value = statement.targets[0], statement.value
    pairs = (
        zip(target.elts, value.elts, strict=False)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        else [(target, value)]
    )
    for item, part in pairs:
        if isinstance(part, ast.Subscript) and python_ast.dotted(part.value) == name:
            cut = part.slice.elts[0] if isinstance(part.slice, ast.Tuple) else part.slice
            is_end = isinstance(cut, ast.Slice) and cut.lower is not None
            if is_end and held_out.is_named_held_out(python_ast.dotted(item)):
                return True
    return False
