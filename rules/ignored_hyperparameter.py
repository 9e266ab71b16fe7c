"""Functions that create an optimizer and ignore their own parameter for its learning rate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.model.queries import callees, names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site

_SETTINGS = {
    "lr": ("lr", "learning_rate", "base_lr", "init_lr", "initial_lr"),
    "weight_decay": ("weight_decay", "wd"),
    "momentum": ("momentum",),
}
"""The parameters of functions for each argument of an optimizer."""
_WITH_MOMENTUM = frozenset({"SGD", "RMSprop"})


class Ignored(NamedTuple):
    """The optimizer at `site` has a constant `setting`, and nothing reads `parameter` of `function`, at `bound`."""

    site: Site
    bound: Site
    setting: str
    parameter: str
    function: str


class IgnoredHyperparameter(Rule):
    """A function ignores its parameter for the learning rate of its optimizer.

    ## What it does
    Finds functions with a parameter such as `lr`, `learning_rate`, `weight_decay` or `momentum` that they never read,
    although they create an optimizer. The optimizer gets a number in its place.

    ## Why is this bad?
    The value that the caller passes has no effect. In a search over learning rates, all runs use the same rate,
    and the logged settings are not those that the runs used.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, lr=0.1):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, lr=0.1):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```
    """

    code = "TL165"
    category = Category.CORRECTNESS
    triggers = ((b"optim",), (b"lr", b"learning_rate", b"weight_decay", b"wd", b"momentum"))

    def ask(self) -> Iterator[Ignored]:
        for function in self.model.definitions.functions.values() if not self.model.is_test else ():
            given = [(setting, name) for setting, known in _SETTINGS.items() for name in known
                     if name in function.parameters]  # fmt: skip
            unread = [item for item in given if not self._is_read(item[1], function)] if given else []
            optimizers = list(self._optimizers(function)) if unread and not _is_bound_by_others(function) else []
            for setting, name in unread:
                found = self._constant(setting, name, optimizers)
                if found is not None:
                    bound = next(item for item in definitions.all_parameters(function.node) if item.arg == name)
                    sites = python_ast.site_of(found), python_ast.site_of(bound)
                    yield Ignored(sites[0], sites[1], setting, name, function.name)

    def _is_read(self, name: str, function: FunctionInfo) -> bool:
        nodes = python_ast.walk(function.node)
        is_read = any(isinstance(item, ast.Name) and item.id == name and written.is_load(item) for item in nodes)
        return is_read or callees.reads_by_text(function.node, self.model.definitions)

    def _optimizers(self, function: FunctionInfo) -> Iterator[ast.Call]:
        """The optimizers of PyTorch that a function creates."""
        for node in python_ast.walk(function.node):
            kind = names.imported(node.func, self.model.definitions) if isinstance(node, ast.Call) else ""
            package, _, name = kind.rpartition(".")
            if isinstance(node, ast.Call) and package == "torch.optim" and name[:1].isupper():
                yield node

    def _constant(self, setting: str, name: str, optimizers: list[ast.Call]) -> ast.Call | None:
        """The first optimizer, if all of them get a number for a setting."""
        if setting == "momentum":
            optimizers = [item for item in optimizers if python_ast.called_name(item) in _WITH_MOMENTUM]
        return optimizers[0] if optimizers and all(self._has_number(setting, item) for item in optimizers) else None

    def _has_number(self, setting: str, call: ast.Call) -> bool:
        if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
            return False
        given = written.argument(call, 1 if setting == "lr" else len(call.args), setting)
        return given is not None and numbers.literal(written.value_of(given, self.model.definitions)) is not None

    def report_Ignored(self, found: Ignored) -> None:
        self.report(
            found.site,
            f"`{found.function}` never reads its parameter `{found.parameter}`, so each caller gets the same value",
            related=[(found.bound, "the parameter is here")],
            help=f"pass `{found.setting}={found.parameter}`",
        )


def _is_bound_by_others(function: FunctionInfo) -> bool:
    """Whether others decide about the parameters of a function: a base class or a decorator."""
    owner = function.owner
    bases = [python_ast.last_name(item) for item in owner.node.bases] if owner is not None else []
    return bool(function.decorators) or any(item not in ("object", "Module", "ABC") for item in bases)
