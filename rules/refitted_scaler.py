"""Data scalers that are fitted again on the test set."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_HELD_OUT = LazyPattern(r"(?i)(?:^|_|\.)(?:val|valid|validation|test|dev)(?:_|$|[xX]$|set|data)|^[xX]_?(?:te|val?)$")

_DOMAIN = LazyPattern(r"(?i)(?:^|[._])(?:source|src|target|tgt|tar|domain|subject|site)")
"""Names of the data of several domains."""


class Refitted(NamedTuple):
    """The scaler fitted at `first` is fitted again at `site`."""

    site: Site
    first: Site
    name: str


class RefittedScaler(Rule):
    """A data scaler is fitted again on the test set.

    ## What it does
    Finds a scikit-learn scaler or encoder whose `fit_transform` gets training data, and then data whose name says
    validation or test.

    ## Why is this bad?
    The test data are scaled by their own mean and deviation instead of those of the training data. The same input then
    gets a different value. A shift between the two sets disappears, and the score does not describe the deployed model.

    ## Example
    ```python
    import torch
    from sklearn.preprocessing import StandardScaler

    def prepare(x_train, x_test):
        scaler = StandardScaler()
        x_train = scaler.fit_transform(x_train)
        x_test = scaler.fit_transform(x_test)
        return torch.tensor(x_train), torch.tensor(x_test)
    ```

    Use instead:
    ```python
    import torch
    from sklearn.preprocessing import StandardScaler

    def prepare(x_train, x_test):
        scaler = StandardScaler()
        x_train = scaler.fit_transform(x_train)
        x_test = scaler.transform(x_test)
        return torch.tensor(x_train), torch.tensor(x_test)
    ```

    ## References
    - [scikit-learn: common pitfalls](https://scikit-learn.org/stable/common_pitfalls.html)
    """

    code = "TL630"
    category = Category.CORRECTNESS
    triggers = ((b"fit_transform",), (b"sklearn",), (b"torch",))

    def ask(self) -> Iterator[Refitted]:
        fits: dict[tuple[ast.AST | None, str], list[ast.Call]] = defaultdict(list)
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "fit_transform" and len(call.args) == 1:
                if self._is_scaler(call.func.value):
                    scope = self.model.tree.function_around(call)
                    fits[scope, self._key(call)].append(call)
        for calls in fits.values():
            calls.sort(key=lambda call: call.lineno)
            for call in calls[1:]:
                named = [self._data(item) for item in (calls[0], call)]
                if all(map(_DOMAIN.search, named)):
                    continue  # each domain by its own statistics
                if _HELD_OUT.search(named[1]) and not _HELD_OUT.search(named[0]) and not self._is_apart(calls[0], call):
                    yield Refitted(python_ast.site_of(call), python_ast.site_of(calls[0]), self._scaler(call))

    def _key(self, call: ast.Call) -> str:
        """The variable of a scaler, or its class where the code creates one for the call."""
        assert isinstance(call.func, ast.Attribute)
        return ast.unparse(call.func.value)

    def _scaler(self, call: ast.Call) -> str:
        return self._key(call).removesuffix("()")

    def _is_scaler(self, node: ast.expr) -> bool:
        """Whether an expression is a single scikit-learn object."""
        made = written.value_of(node, self.model.definitions)
        qualified = names.imported(made.func, self.model.definitions) if isinstance(made, ast.Call) else ""
        is_shared = made is not node or qualified.endswith("Scaler")  # two encoders may number the classes alike
        return qualified.startswith("sklearn.preprocessing.") and is_shared

    def _data(self, call: ast.Call) -> str:
        """The name of the data that a scaler is fitted to."""
        found = [
            python_ast.dotted(item)
            for item in python_ast.walk(call.args[0])
            if isinstance(item, (ast.Name, ast.Attribute))
        ]
        return max(found, key=len, default="")

    def _is_apart(self, first: ast.Call, second: ast.Call) -> bool:
        """Whether only one of two calls runs, because they are in two branches of a condition."""
        return self._arms(first) != self._arms(second)

    def _arms(self, call: ast.Call) -> list[tuple[ast.If, bool]]:
        """The conditions around a call, each with whether the call is in the branch where it holds."""
        around = [item for item in self.model.tree.ancestors(call) if isinstance(item, ast.If)]
        return [(item, call.lineno <= (item.body[-1].end_lineno or 0)) for item in around]

    def report_Refitted(self, found: Refitted) -> None:
        self.report(
            found.site,
            f"`{found.name}` is fitted again: these data are scaled differently from the training data",
            related=[(found.first, "it is fitted to the training data here")],
            help=f"call `{found.name}.transform`",
        )
