"""Frozen parameters that the next lines unfreeze."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import freezing
from torchlint.syntax import python_ast

_HARMLESS = frozenset("print info debug warning list dict set tuple len str format append extend".split())
"""Names of functions that do not run a model."""


class Undone(NamedTuple):
    """`thawing` sets all parameters that `frozen` has frozen to be trained, and nothing in between uses them."""

    frozen: freezing.Setting
    thawing: freezing.Setting


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
    triggers = ((b"requires_grad",), (b"True",), (b"False",))

    def ask(self) -> Iterator[Undone]:
        blocks = [self.model.tree.module.body, *(item.body for item in self.model.tree.of_type(*python_ast.FUNCTIONS))]
        inner = (item.body for item in self.model.tree.of_type(ast.If, ast.For, ast.While, ast.With))
        for block in [] if self.model.is_test else [*blocks, *inner]:
            yield from self._undone_in(block)

    def _undone_in(self, block: list[ast.stmt]) -> Iterator[Undone]:
        settings = [list(freezing.settings(statement, self.model.tree)) for statement in block]
        for number, there in enumerate(settings):
            for thawing in there:
                is_again = any(not item.flag for later in settings[number:] for item in later)
                if thawing.flag and not thawing.is_partial and not is_again:
                    frozen = self._frozen_before(block[:number], settings[:number], thawing)
                    if frozen is not None:
                        yield Undone(frozen, thawing)

    def _frozen_before(
        self, block: list[ast.stmt], settings: list[list[freezing.Setting]], thawing: freezing.Setting
    ) -> freezing.Setting | None:
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

    def report_Undone(self, found: Undone) -> None:
        self.report(
            python_ast.site_of(found.thawing.node),
            f"this unfreezes all parameters of `{found.thawing.owner}`, including the frozen ones",
            related=[(python_ast.site_of(found.frozen.node), "parameters are frozen here")],
            help="unfreeze before you freeze, or leave `requires_grad` as it is",
        )


def _calls(statement: ast.stmt) -> bool:
    """Whether a statement calls a function that may use the model, perhaps by another name."""
    calls = (item for item in python_ast.walk(statement) if isinstance(item, ast.Call))
    return any(python_ast.called_name(item) not in _HARMLESS for item in calls)
