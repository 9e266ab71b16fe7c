"""Losses that get the target in place of the prediction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import losses, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_TARGET = LazyPattern(
    r"(?i)(^|_|\b)(y_true|true|trues|y|gt|targets?|labels?|ground_?truth|truth|tgt|masks?|real_labels?|fake_labels?)($|_|\b)"
)
_PREDICTION = LazyPattern(
    r"(?i)(^|_|\b)(y_?hat|y_pred|preds?|predictions?|predicted|logits?|outputs?|out|scores?|probs?|recon\w*)($|_|\b)"
)


class Swapped(NamedTuple):
    """The loss at `site` gets a target first, and a prediction second."""

    site: Site


class SwappedLossArguments(Rule):
    """A binary cross-entropy gets the target first and the prediction second.

    ## What it does
    Finds `F.binary_cross_entropy(target, output)` and calls of `BCELoss` and `BCEWithLogitsLoss` whose arguments are
    named like a target and like a prediction, in this order, and whose second argument has gradients.

    ## Why is this bad?
    The loss is not symmetric. `binary_cross_entropy` takes the logarithm of its first argument: for a target of 0 or 1
    this is 0 or a large constant. With logits, the loss is a linear function of the prediction and has no minimum, so
    predictions grow without bound. There is no error, because both tensors have the same shape.

    ## Example
    ```python
    import torch.nn.functional as F

    def train(model, loader, optimizer):
        for x, target in loader:
            output = model(x)
            loss = F.binary_cross_entropy_with_logits(target, output)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def train(model, loader, optimizer):
        for x, target in loader:
            output = model(x)
            loss = F.binary_cross_entropy_with_logits(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.nn.functional.binary_cross_entropy_with_logits](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy_with_logits.html):
      `input`, `target`
    """

    code = "TL557"
    category = Category.CORRECTNESS
    triggers = ((b"BCELoss", b"BCEWithLogitsLoss", b"binary_cross_entropy"),)
    calls = frozenset("BCELoss BCEWithLogitsLoss binary_cross_entropy binary_cross_entropy_with_logits".split())

    def ask(self) -> Iterator[Swapped]:
        seen = set[Site]()
        found = self.model.endings.losses("binary_cross_entropy", "binary_cross_entropy_with_logits")
        for event, loss in () if self.model.is_test else found:
            operands, site = losses.operands(loss), loss.site or event.site
            if len(operands) < 2 or site in seen:
                continue
            first, second = _given(self.model.tree.node(site))
            if not _is_target(first) or not _is_prediction(second):
                continue
            tracked = [self.model.tracking.tracked(item) for item in operands[:2]]
            if tracked[0] is not values.Answer.YES and tracked[1] is not values.Answer.NO:
                seen.add(site)
                yield Swapped(site)

    def report_Swapped(self, found: Swapped) -> None:
        self.report(
            found.site,
            "the loss gets the target first and the prediction second: it takes the target for the prediction",
            help="swap the two arguments",
        )


def _given(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """The two tensors that the call of a loss passes."""
    if not isinstance(node, ast.Call):
        return None, None
    return written.argument(node, 0, "input"), written.argument(node, 1, "target")


def _is_target(node: ast.expr | None) -> bool:
    return bool(_TARGET.search(_name(node))) and not _PREDICTION.search(_name(node))


def _is_prediction(node: ast.expr | None) -> bool:
    """Whether the name of a tensor, or of the dictionary that holds it, says that a model computed it."""
    names = (_name(node).replace("y_", ""), _name(node).partition(".")[0])
    return any(_PREDICTION.search(item) and not _TARGET.search(item) for item in names)


def _name(node: ast.expr | None) -> str:
    """The name of a tensor, with the key of an entry, before methods such as `float()` and `view()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""
        return f"{_name(node.value)}.{key!s}"
    return python_ast.last_name(node) if node is not None else ""
