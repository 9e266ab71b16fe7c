"""Data scalers that are fitted before the data are split."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import fitted_scalers, held_out, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


_STATISTICS = frozenset({"mean", "std", "min", "max"})

_KEEPING = frozenset("contiguous clone copy float double to cuda reshape".split())
"""Methods of a part of the data that keep its values."""

_TENSORS = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor"})


class Leaked(NamedTuple):
    """The scaler at `site` is fitted to data that the code splits at `split`."""

    site: Site
    split: Site
    name: str


class ScalerBeforeSplit(Rule):
    """A scaler is fitted to all data before the test set is split off.

    ## What it does
    Finds results of `fit_transform` of a scaler, or of `transform` after `fit` with the same data, that the same
    function splits into training and test data afterwards, with `train_test_split` or by slices. The scaler is from
    scikit-learn, or of a class whose `fit` keeps a mean, deviation, minimum or maximum of the data. Also finds data
    that the code normalizes by hand with their own mean, deviation, minimum or maximum, `x = x - x.mean(0)`, and splits
    afterwards. A split is also code that takes one part by a flag: `begin, end = {"train": ..., "test": ...}[flag]`.

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
    triggers = (
        (b"fit_transform", b".fit(", b".mean(", b".std(", b".min(", b".max("),
        (b"sklearn", b"test", b"val"),
        (b"torch",),
    )

    def ask(self) -> Iterator[Leaked]:
        for statement in [] if self.model.is_test else self.model.tree.of_type(ast.Assign):
            name = python_ast.dotted(statement.targets[0])
            value = statement.value
            if not name or not (self._is_fitted(value, name) or _is_normalized(value, name)):
                continue
            split = self._split(statement, name)
            if split is not None:
                yield Leaked(python_ast.site_of(value), python_ast.site_of(split), name)

    def _is_fitted(self, value: ast.expr, name: str) -> bool:
        """Whether an expression is the result of a scaler that is fitted to all data."""
        data = fitted_scalers.fitted_to(value, self.model.definitions)
        return data is not None and not self._is_of_training(data, name)

    def _is_of_training(self, data: ast.expr, name: str) -> bool:
        """Whether the data are a training part already, or targets."""
        texts = [
            name,
            *(python_ast.dotted(item) for item in python_ast.walk(data) if isinstance(item, ast.Name)),
        ]
        return any(
            held_out.is_named_training(item) or item.lower().startswith(("y", "label", "target")) for item in texts
        )

    def _split(self, made: ast.Assign, name: str) -> ast.AST | None:
        """The place behind a statement where the function splits a variable."""
        scope = self.model.tree.scope_around(made)
        for node in names.own_nodes(scope):
            if getattr(node, "lineno", 0) <= made.lineno:
                continue
            if isinstance(node, ast.Call) and python_ast.called_name(node) == "train_test_split":
                if any(isinstance(item, ast.Name) and item.id == name for item in node.args):
                    return node
            elif (
                _is_end_of(node, name)
                or self._is_chosen_part(node, name)
                or (isinstance(node, ast.IfExp) and _are_halves(node.body, node.orelse, name))
                or (isinstance(node, ast.If) and _are_arms(node, name))
            ):
                return node
        return None

    def _is_chosen_part(self, node: ast.AST, name: str) -> bool:
        """Whether an assignment takes the part of a variable that a flag names: training, validation or test data."""
        part = _part(node.value, name) if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or part is None:
            return False
        bounds = {item.id for item in python_ast.walk(part) if isinstance(item, ast.Name)}
        scope = self.model.tree.scope_around(node)
        for other in names.own_nodes(scope):
            if isinstance(other, ast.Assign) and bounds & set(python_ast.names_in(other.targets[0])):
                if isinstance(other.value, ast.Subscript) and _has_roles(self._keys(other.value.value)):
                    return True
        return _has_roles(self._flags(node, name))

    def _keys(self, table: ast.expr) -> list[str]:
        """The words under which a dictionary keeps its values."""
        known = written.value_of(table, self.model.definitions)
        keys = known.keys if isinstance(known, ast.Dict) else []
        return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]

    def _flags(self, node: ast.Assign, name: str) -> list[str]:
        """The words of the conditions under which a function takes its parts of a variable, if they differ."""
        scope = self.model.tree.scope_around(node)
        arms = [
            (item, part)
            for item in names.own_nodes(scope)
            if isinstance(item, ast.If)
            for part in (_part(inner.value, name) for inner in item.body if isinstance(inner, ast.Assign))
            if part is not None
        ]
        if not any(node in arm.body for arm, _ in arms) or all(part.lower is None for _, part in arms):
            return []
        words = (word for arm, _ in arms for word in python_ast.walk(arm.test))
        return [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]

    def report_Leaked(self, found: Leaked) -> None:
        self.report(
            found.site,
            f"the scale of `{found.name}` comes from all data, including the test data",
            related=[(found.split, "the test data are split off here")],
            help="split first, fit to the training data, and `transform` the test data",
        )


def _is_normalized(value: ast.expr, name: str) -> bool:
    """Whether an expression scales a variable by its own statistics over the samples: `(x - x.mean(0)) / x.std(0)`."""
    if not isinstance(value, ast.BinOp):
        return False
    return any(
        isinstance(item, ast.Call)
        and isinstance(item.func, ast.Attribute)
        and item.func.attr in _STATISTICS
        and python_ast.dotted(item.func.value) == name
        and fitted_scalers.is_over_samples(item)
        for item in python_ast.walk(value)
    )


def _part(value: ast.expr, name: str) -> ast.Slice | None:
    """The slice of `values[a:b]`, also as a tensor: `torch.tensor(values[a:b])`."""
    if isinstance(value, ast.Call) and python_ast.called_name(value) in _TENSORS and value.args:
        value = value.args[0]
    value = python_ast.without_calls(value, _KEEPING)
    if not isinstance(value, ast.Subscript) or python_ast.dotted(value.value) != name:
        return None
    cut = value.slice.elts[0] if isinstance(value.slice, ast.Tuple) and value.slice.elts else value.slice
    return cut if isinstance(cut, ast.Slice) and (cut.lower is not None or cut.upper is not None) else None


def _are_arms(branch: ast.If, name: str) -> bool:
    """Whether the two arms of an `if` take the beginning and the end of a variable."""
    first, second = (
        [item.value for item in arm if isinstance(item, ast.Assign) and _part(item.value, name) is not None]
        for arm in (branch.body, branch.orelse)
    )
    return len(first) == len(second) == 1 and _are_halves(first[0], second[0], name)


def _has_roles(words: list[str]) -> bool:
    """Whether words name both training data and held-out data."""
    return any(map(held_out.is_named_training, words)) and any(map(held_out.is_named_held_out, words))


def _are_halves(first: ast.expr, second: ast.expr, name: str) -> bool:
    """Whether two expressions are the beginning and the end of a variable: `x[:n]` and `x[n:]`."""
    cuts = [item.slice for item in (first, second) if isinstance(item, ast.Subscript)]
    if len(cuts) != 2 or any(
        python_ast.dotted(item.value) != name for item in (first, second) if isinstance(item, ast.Subscript)
    ):
        return False
    slices = [item for item in cuts if isinstance(item, ast.Slice) and item.step is None]
    starts = [item for item in slices if item.lower is None and item.upper is not None]
    ends = [item for item in slices if item.lower is not None and item.upper is None]
    return len(starts) == len(ends) == 1 and ast.dump(starts[0].upper or first) == ast.dump(ends[0].lower or first)


def _is_end_of(statement: ast.AST, name: str) -> bool:
    """Whether an assignment gives held-out data the end of a variable: `test = values[n:]`."""
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], statement.value
    pairs = (
        zip(target.elts, value.elts, strict=False)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        else [(target, value)]
    )
    for item, piece in pairs:
        part = piece
        if isinstance(part, ast.Call) and python_ast.called_name(part) in _TENSORS and part.args:
            part = part.args[0]
        part = python_ast.without_calls(part, _KEEPING)
        if isinstance(part, ast.Subscript) and python_ast.dotted(part.value) == name:
            cut = part.slice.elts[0] if isinstance(part.slice, ast.Tuple) else part.slice
            is_end = isinstance(cut, ast.Slice) and cut.lower is not None
            if is_end and held_out.is_named_held_out(python_ast.dotted(item)):
                return True
    return False
