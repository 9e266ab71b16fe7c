"""Best values that are compared with labels, as if they were classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import predicted_classes
from torchlint.syntax import python_ast

_LABELS = LazyPattern(r"(?i)(^|_)(y|labels?|targets?|gts?|truth|classes)(_|$|\d)|^(lbl|tgt)")


class Compared(NamedTuple):
    """The comparison at `site` compares the values of the maximum at `made` with `labels`."""

    site: python_ast.Site
    made: python_ast.Site
    labels: str


class MaximumAsClass(Rule):
    """The values of a maximum are compared with labels, instead of its indices.

    ## What it does
    Finds comparisons of labels with `torch.max(x, 1)[0]`, `x.max(1).values`, or the first variable of
    `best, classes = x.max(1)`.

    ## Why is this bad?
    `max` along a dimension returns the largest numbers first and their positions second. The numbers are logits, which
    almost never equal a class number. The accuracy is near 0, however well the model learns.

    ## Example
    ```python
    import torch

    def accuracy(model, x, labels):
        predicted, _ = torch.max(model(x), 1)
        return (predicted == labels).float().mean()
    ```

    Use instead:
    ```python
    import torch

    def accuracy(model, x, labels):
        _, predicted = torch.max(model(x), 1)
        return (predicted == labels).float().mean()
    ```

    ## References
    - [torch.max](https://docs.pytorch.org/docs/stable/generated/torch.max.html)
    """

    code = "TL652"
    category = Category.CORRECTNESS
    triggers = ((b"max(", b"topk"), (b"torch",), (b"==", b".eq("))

    def ask(self) -> Iterator[Compared]:
        known = predicted_classes.PredictedClasses(self.model.definitions)
        for node in self.model.tree.of_type(ast.Compare, ast.Call) if not self.model.is_test else ():
            for best, labels in _compared(node):
                name = python_ast.last_name(labels)
                made = known.is_best_value(best) if _LABELS.search(name) else None
                if made is not None and name not in python_ast.names_in(made):
                    yield Compared(python_ast.site_of(node), python_ast.site_of(made), self.model.tree.code(labels))
                    break

    def report_Compared(self, found: Compared) -> None:
        self.report(
            found.site,
            f"`{found.labels}` is compared with the largest values, not with the predicted classes",
            related=[(found.made, "the classes are the second result, the indices")],
            help="use the second result of `max`, or `argmax`",
        )


def _compared(node: ast.Compare | ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The two sides of `a == b`, `a.eq(b)` and `torch.eq(a, b)`, in both orders."""
    sides: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators] if isinstance(node.ops[0], ast.Eq) else []
    elif python_ast.called_name(node) == "eq" and isinstance(node.func, ast.Attribute):
        sides = node.args if python_ast.dotted(node.func.value) == "torch" else [node.func.value, *node.args]
    if len(sides) == 2:
        yield sides[0], sides[1]
        yield sides[1], sides[0]
