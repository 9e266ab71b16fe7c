"""Maxima and minima that always choose the number which marks excluded entries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, variables, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LARGEST = frozenset({"max", "amax", "argmax", "topk"})
_SMALLEST = frozenset({"min", "amin", "argmin"})
_PASSING = frozenset("clone detach float contiguous to cuda cpu".split())
_STEPS = 6


class Chosen(NamedTuple):
    """The choice at `choice` always takes the number that `filled` writes into excluded entries."""

    choice: Site
    filled: Site
    is_largest: bool


class ChosenFiller(Rule):
    """A maximum or minimum chooses the very entries that a fill should exclude.

    ## What it does
    Finds `max` of a tensor whose excluded entries are set to plus infinity, and `min` where they are minus infinity.
    Follows `masked_fill`, `fill_diagonal_`, `where` and assignments, and expressions such as `1 - x` and `-x`, which
    reverse the order.

    ## Why is this bad?
    The result is always infinite, and no gradient flows through it, because it is a constant. In a triplet loss,
    `relu(positive - negative + margin)` is then infinite or always 0.

    ## Example
    ```python
    import torch

    def hardest(similarities):
        similarities.fill_diagonal_(-float("inf"))
        distances = 1 - similarities
        return distances.max(dim=1).values
    ```

    Use instead:
    ```python
    import torch

    def hardest(similarities):
        similarities.fill_diagonal_(float("inf"))
        distances = 1 - similarities
        return distances.max(dim=1).values
    ```

    ## References
    - [torch.Tensor.masked_fill](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_fill.html)
    """

    code = "TL559"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"inf",), (b"max", b"min", b"topk"), (b"fill", b"where", b"="), (b"torch",))

    def ask(self) -> Iterator[Chosen]:
        for call in () if self.model.is_test else self.model.tree.of_type(ast.Call):
            name = python_ast.called_name(call)
            if name not in _LARGEST | _SMALLEST or not isinstance(call.func, ast.Attribute):
                continue
            operand, rest = arithmetic.operand(call, self.model.definitions)
            if name == "topk":
                smallest = written.argument(call, 2 + len(call.args) - len(rest) - 1, "largest")
                if smallest is not None:
                    continue
            has_dim = bool(rest) or any(item.arg in ("dim", "axis") for item in call.keywords)
            filled = self._filled(operand, call, name in _LARGEST) if operand is not None and has_dim else None
            if filled is not None:
                yield Chosen(python_ast.site_of(call), python_ast.site_of(filled), name in _LARGEST)

    def _filled(self, node: ast.expr, choice: ast.expr, is_largest: bool) -> ast.AST | None:
        """The code that fills a tensor with the number that a choice prefers."""
        for _ in range(_STEPS):
            if isinstance(node, ast.Name):
                value = variables.value_before(node, self.model.definitions)
                found = self._filled_in_place(node.id, value, choice, is_largest)
                if found is not None or value is None:
                    return found
                node, choice = value, value
            elif (other := arithmetic.complement(node)) is not None:
                node, is_largest = other, not is_largest
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                node, is_largest = node.operand, not is_largest
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PASSING:
                node = node.func.value
            else:
                return node if self._is_filled(node, is_largest) else None
        return None

    def _is_filled(self, node: ast.expr, is_largest: bool) -> bool:
        """Whether an expression fills a tensor: `x.masked_fill(mask, inf)`, `torch.where(mask, x, inf)`."""
        if not isinstance(node, ast.Call):
            return False
        if python_ast.called_name(node) == "masked_fill" and len(node.args) == 2:
            return _is_infinite(node.args[1], is_largest)
        is_where = python_ast.called_name(node) == "where" and len(node.args) == 3
        return is_where and any(_is_infinite(item, is_largest) for item in node.args[1:])

    def _filled_in_place(self, name: str, value: ast.expr | None, choice: ast.expr, is_largest: bool) -> ast.AST | None:
        """A statement between the assignment of a variable and a choice that fills a part of it."""
        start = value.lineno if value is not None else 0
        for node in names.own_nodes(self.model.tree.scope_around(choice)):
            is_before = start < getattr(node, "lineno", 0) < choice.lineno
            if is_before and _fills(node, name, is_largest) and not self._is_conditional(node, choice):
                return node
        return None

    def _is_conditional(self, node: ast.AST, choice: ast.AST) -> bool:
        """Whether a statement runs under a condition that does not hold for the choice."""
        around = set(self.model.tree.ancestors(choice))
        return any(
            isinstance(item, (ast.If, ast.Try)) and item not in around for item in self.model.tree.ancestors(node)
        )

    def report_Chosen(self, found: Chosen) -> None:
        what, infinity = ("maximum", "plus") if found.is_largest else ("minimum", "minus")
        self.report(
            found.filled,
            f"the {what} chooses exactly the excluded entries, because they are {infinity} infinity",
            related=[(found.choice, f"the {what} is here")],
            help="fill excluded entries with the infinity of the other sign",
        )


def _fills(node: ast.AST, name: str, is_largest: bool) -> bool:
    """Whether a node fills a part of a variable in place: `x.fill_diagonal_(inf)`, `x[mask] = inf`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
        index = node.targets[0].slice
        is_whole = isinstance(index, ast.Slice) and index.lower is None and index.upper is None
        is_filled = python_ast.dotted(node.targets[0].value) == name and _is_infinite(node.value, is_largest)
        return is_filled and not is_whole
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    owner = node.func.value
    if node.func.attr == "fill_":
        if not isinstance(owner, ast.Call) or python_ast.called_name(owner) != "diagonal":
            return False
        owner = owner.func.value if isinstance(owner.func, ast.Attribute) else owner
    elif node.func.attr not in ("fill_diagonal_", "masked_fill_"):
        return False
    return python_ast.dotted(owner) == name and _is_infinite(node.args[-1], is_largest)


def _is_infinite(node: ast.expr, is_positive: bool) -> bool:
    """Whether an expression is plus infinity, or minus infinity: `float("inf")`, `-torch.inf`, `-math.inf`."""
    sign = 1
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        sign = -sign if isinstance(node.op, ast.USub) else sign
        node = node.operand
    if isinstance(node, ast.Call) and python_ast.dotted(node.func) == "float" and len(node.args) == 1:
        text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        sign = -sign if isinstance(text, str) and text.startswith("-") else sign
        is_infinite = isinstance(text, str) and text.lstrip("+-").lower() in ("inf", "infinity")
    else:
        is_infinite = python_ast.dotted(node) in ("torch.inf", "math.inf", "np.inf", "numpy.inf", "inf")
    return is_infinite and (sign > 0) is is_positive
