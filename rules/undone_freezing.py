"""Frozen parameters that the next lines unfreeze."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.syntax import python_ast

_OF_PARAMETERS = frozenset({"parameters", "named_parameters"})
_FLAG = "requires_grad"
_HARMLESS = frozenset("print info debug warning list dict set tuple len str format append extend".split())
"""Names of functions that do not run a model."""


class Setting(NamedTuple):
    """A statement sets `requires_grad` of parameters of `owner`; of all of them, unless it `is_partial`."""

    owner: str
    flag: bool
    is_partial: bool
    site: python_ast.Site


class Undone(NamedTuple):
    """`thawing` sets all parameters that `freezing` has frozen to be trained, and nothing in between uses them."""

    freezing: Setting
    thawing: Setting


class UndoneFreezing(Rule):
    """Parameters are frozen, and unfrozen again before anything uses them.

    ## What it does
    Finds code that sets `requires_grad` to False for some parameters of a model, and then to True for all of them, in
    the same block. An example is a second loop over `named_parameters()` that builds groups for the optimizer.

    Not reported if a statement in between uses the model or calls a function, or if a later statement freezes
    parameters again.

    ## Why is this bad?
    Nothing stays frozen. The optimizer changes the pretrained layers, too, and needs memory for them.

    ## Example
    ```python
    import torch

    def make_optimizer(model):
        for name, p in model.named_parameters():
            if name.startswith("backbone"):
                p.requires_grad = False
        weights = []
        for name, p in model.named_parameters():
            p.requires_grad = True
            weights.append(p)
        return torch.optim.SGD(weights, lr=0.1)
    ```

    Use instead:
    ```python
    import torch

    def make_optimizer(model):
        for name, p in model.named_parameters():
            if name.startswith("backbone"):
                p.requires_grad = False
        weights = []
        for name, p in model.named_parameters():
            if p.requires_grad:
                weights.append(p)
        return torch.optim.SGD(weights, lr=0.1)
    ```

    ## References
    - [Freezing parts of your model](https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad)
    """

    code = "TL346"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((_FLAG.encode(),), (b"True",), (b"False",))

    def ask(self) -> Iterator[Undone]:
        blocks = [self.model.tree.module.body, *(item.body for item in self.model.tree.of_type(*python_ast.FUNCTIONS))]
        inner = (item.body for item in self.model.tree.of_type(ast.If, ast.For, ast.While, ast.With))
        for block in [] if self.model.is_test else [*blocks, *inner]:
            yield from self._undone_in(block)

    def _undone_in(self, block: list[ast.stmt]) -> Iterator[Undone]:
        settings = [list(self._settings(statement)) for statement in block]
        for number, there in enumerate(settings):
            for thawing in there:
                is_again = any(not item.flag for later in settings[number:] for item in later)
                if thawing.flag and not thawing.is_partial and not is_again:
                    freezing = self._frozen_before(block[:number], settings[:number], thawing)
                    if freezing is not None:
                        yield Undone(freezing, thawing)

    def _frozen_before(self, block: list[ast.stmt], settings: list[list[Setting]], thawing: Setting) -> Setting | None:
        """The last freezing of these parameters, if no statement after it uses them."""
        for statement, there in zip(reversed(block), reversed(settings), strict=True):
            frozen = [item for item in there if not item.flag and f"{item.owner}.".startswith(f"{thawing.owner}.")]
            if frozen:
                return frozen[0]
            root = thawing.owner.split(".")[0]
            if _calls(statement) or (root in python_ast.names_in(statement) and root != "self"):
                return None
            if any(python_ast.dotted(node) == thawing.owner for node in python_ast.walk(statement)):
                return None
        return None

    def _settings(self, statement: ast.stmt) -> Iterator[Setting]:
        """The flags that a loop over parameters sets, or `module.requires_grad_(...)`."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found = _set_by_call(statement.value)
            if found is not None:
                yield Setting(python_ast.dotted(found[0]), found[1], False, python_ast.site_of(statement))
        over = statement.iter if isinstance(statement, ast.For) else None
        if not isinstance(statement, ast.For) or not isinstance(over, ast.Call) or over.args or over.keywords:
            return
        owner = python_ast.dotted(over.func.value) if isinstance(over.func, ast.Attribute) else ""
        if owner and python_ast.called_name(over) in _OF_PARAMETERS:
            names = python_ast.names_bound(statement.target)
            for node in python_ast.walk(statement):
                flag = _set_for_one(node, names)
                if flag is not None:
                    is_partial = self.model.tree.statement(node) not in statement.body or _leaves(statement)
                    yield Setting(owner, flag, is_partial, python_ast.site_of(node))

    def report_Undone(self, found: Undone) -> None:
        self.report(
            found.thawing.site,
            f"this unfreezes all parameters of `{found.thawing.owner}`, including the frozen ones",
            related=[(found.freezing.site, "parameters are frozen here")],
            help="unfreeze before you freeze, or leave `requires_grad` as it is",
        )


def _flag(node: ast.expr) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _set_by_call(call: ast.Call) -> tuple[ast.expr, bool] | None:
    """The module or parameter, and the flag, of `x.requires_grad_(flag)`."""
    given = python_ast.arguments(call)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != f"{_FLAG}_" or len(given) > 1:
        return None
    flag = _flag(given[0]) if given else True
    return (call.func.value, flag) if flag is not None and python_ast.dotted(call.func.value) else None


def _set_for_one(node: ast.AST, names: set[str]) -> bool | None:
    """The flag that a statement sets for the parameter of a loop."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        target = node.targets[0]
        return _flag(node.value) if target.attr == _FLAG and python_ast.dotted(target.value) in names else None
    found = _set_by_call(node) if isinstance(node, ast.Call) else None
    return found[1] if found is not None and python_ast.dotted(found[0]) in names else None


def _leaves(loop: ast.For) -> bool:
    return any(isinstance(node, python_ast.LEAVING) for node in python_ast.walk(loop))


def _calls(statement: ast.stmt) -> bool:
    """Whether a statement calls a function that may use the model, perhaps by another name."""
    calls = (item for item in python_ast.walk(statement) if isinstance(item, ast.Call))
    return any(python_ast.called_name(item) not in _HARMLESS for item in calls)
