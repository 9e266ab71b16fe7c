"""Focal losses whose probability contains the weight of the class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, given, names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}" for name in ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits")
)
_MODULES = frozenset(f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss", "BCEWithLogitsLoss"))
_WEIGHTS = frozenset({"weight", "pos_weight"})


class Weighted(NamedTuple):
    """The exponential at `site` is of the loss at `loss`, which contains weights."""

    site: Site
    loss: Site


class WeightedProbability(Rule):
    """A focal loss computes its probability from a weighted loss.

    ## What it does
    Finds `pt = torch.exp(-loss)` where `loss` is a cross-entropy with `weight` or `pos_weight`, and code that uses
    `1 - pt`.

    ## Why is this bad?
    The focal factor no longer separates hard samples from easy ones. `exp(-loss)` is the probability p of the right
    class only if the loss has no weights. With a weight w, it is p to the power of w. Rare classes have a large w, so
    their `pt` is near 0.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def focal(logits, targets, weight, gamma=2.0):
        loss = F.cross_entropy(logits, targets, weight=weight, reduction="none")
        pt = torch.exp(-loss)
        return ((1 - pt) ** gamma * loss).mean()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def focal(logits, targets, weight, gamma=2.0):
        loss = F.cross_entropy(logits, targets, reduction="none")
        pt = torch.exp(-loss)
        return (weight[targets] * (1 - pt) ** gamma * loss).mean()
    ```

    ## References
    - [Focal Loss for Dense Object Detection](https://arxiv.org/abs/1708.02002)
    """

    code = "TL519"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (b"exp(",),
        (b"weight",),
        (b"ntropy", b"nll_loss", b"NLLLoss", b"BCEWithLogits", b"with_logits"),
    )

    def ask(self) -> Iterator[Weighted]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) != "exp" or not isinstance(call.func, ast.Attribute):
                continue
            is_function = python_ast.dotted(call.func.value) == "torch"
            if len(call.args) != int(is_function):
                continue
            loss = self._negated(call.args[0] if is_function else call.func.value)
            if loss is not None and self._has_weights(loss) and self._is_subtracted(call):
                yield Weighted(python_ast.site_of(call), python_ast.site_of(loss))

    def _negated(self, node: ast.expr) -> ast.Call | None:
        """The call whose negative result an expression is."""
        is_negative = False
        for _ in range(5):
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                is_negative, node = not is_negative, node.operand
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and numbers.literal(node.left) == -1:
                is_negative, node = not is_negative, node.right
            elif isinstance(node, ast.Name):
                node = written.value_of(node, self.model.definitions)
            else:
                break
        return node if is_negative and isinstance(node, ast.Call) else None

    def _has_weights(self, loss: ast.Call) -> bool:
        """Whether a call computes a cross-entropy with weights."""
        made: ast.expr = loss
        if names.imported(loss.func, self.model.definitions) not in _FUNCTIONS:
            made = written.value_of(loss.func, self.model.definitions)
            if not isinstance(made, ast.Call) or names.imported(made.func, self.model.definitions) not in _MODULES:
                return False
        assert isinstance(made, ast.Call)
        weights = [item.value for item in made.keywords if item.arg in _WEIGHTS]
        weights += made.args[:1] if made is not loss else made.args[2:3]
        values = [written.value_of(item, self.model.definitions) for item in weights]
        values = [item for item in values if not isinstance(item, ast.Constant)]
        defaults = (given.default_of(item, self.model, is_called=True) for item in values)
        return any(item is None or not python_ast.is_literal(item, None) for item in defaults)

    def _is_subtracted(self, call: ast.Call) -> bool:
        """Whether code computes 1 minus an exponential or the variable that holds it."""
        statement = self.model.tree.statement(call)
        is_whole = isinstance(statement, ast.Assign) and statement.value is call
        name = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) and is_whole else ""
        scope = self.model.tree.scope_around(call)
        taken = filter(None, map(arithmetic.complement, names.own_nodes(scope)))
        return any(item is call or (name and python_ast.dotted(item) == name) for item in taken)

    def report_Weighted(self, found: Weighted) -> None:
        self.report(
            found.site,
            "this is not the probability of the right class, because the loss contains weights",
            related=[(found.loss, "the loss is weighted here")],
            help="compute the loss without weights, and multiply by the weights afterwards",
        )
