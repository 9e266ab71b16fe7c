"""Bounds that end exactly where an operation has an infinite value or gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import definitions, events, values
from torchlint.model.queries import masks
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_CLAMPS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "clamp_"})
_AT_ZERO = frozenset({"log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"})
_AT_ONE = frozenset({"acos", "arccos", "asin", "arcsin", "atanh", "arctanh", "erfinv"})
_SHAPES = frozenset("view reshape squeeze unsqueeze flatten float getitem contiguous sum mean".split())
_HALF = 2.0**-25
"""`1 - x` is 1 in single precision for a smaller number."""


class AtSingularity(NamedTuple):
    """The operation `name` at `site` takes what the clamp at `clamp` bounds by `bound`, where it is infinite."""

    site: Site
    clamp: Site
    name: str
    bound: float
    is_rounded: bool
    is_sure: bool


class BoundAtSingularity(Rule):
    """A clamp ends exactly where the next operation is infinite, or has an infinite gradient.

    ## What it does
    Finds `acos(x.clamp(-1, 1))`, `sqrt(x.clamp(min=0))`, `log(x.clamp(min=0))` and `log(1 - p)` of a `p` that is clamped
    to 1, in the graph of a loss. A bound of `1 - 1e-8` counts as 1: it is 1 in single precision. In preview: where
    nobody knows whether gradients are computed.

    ## Why is this bad?
    The clamp stands there because values go beyond the bound. These become the bound itself. There the logarithm is
    infinite, and so is the gradient of the root and the arc cosine; times the gradient of the clamp, which is 0, it is
    NaN. One such value destroys all weights in that step.

    ## Example
    ```python
    import torch

    def train(model: torch.nn.Linear, x, optimizer):
        angle = torch.acos(torch.clamp(model(x), -1.0, 1.0))
        optimizer.zero_grad()
        angle.mean().backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model: torch.nn.Linear, x, optimizer):
        angle = torch.acos(torch.clamp(model(x), -1.0 + 1e-6, 1.0 - 1e-6))
        optimizer.zero_grad()
        angle.mean().backward()
        optimizer.step()
    ```

    ## References
    - [pytorch#8069: `acos` gives NaN gradients at 1](https://github.com/pytorch/pytorch/issues/8069)
    """

    code = "TL535"
    category = Category.CORRECTNESS
    triggers = ((b"clamp", b"clip"), (b"acos", b"asin", b"atanh", b"sqrt", b"log", b"arc", b"** 0.5", b"erfinv"))
    calls = frozenset({"acos", "arccos", "sqrt", "log", "clamp"})

    def ask(self) -> Iterator[AtSingularity]:
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                for value, calls in masks.computed_in_calls(event.value):
                    for found in self._found(value, event.value if calls else None):
                        if found.site not in seen:
                            seen.add(found.site)
                            yield found

    def _found(self, value: values.Tensor, call: values.Tensor | None) -> Iterator[AtSingularity]:
        bad = self._singular(value)
        if value.site is None or not value.parents or not bad:
            return
        operand, factor, shift = values.resolved(value.parents[0]), 1.0, 0.0
        for _ in range(6):
            if (
                not isinstance(operand, values.Tensor)
                or isinstance(operand, values.ModuleOutput)
                or not operand.parents
            ):
                return
            if operand.op in _CLAMPS:
                break
            if operand.op in (operators.SUB, operators.RSUB) and len(operand.parents) == 2 and shift == 0:
                first, second = operand.parents if operand.op == operators.SUB else operand.parents[::-1]
                if self._number(first) != 1:
                    return
                operand, factor, shift = values.resolved(second), -factor, factor
            elif operand.op == "neg":
                operand, factor = values.resolved(operand.parents[0]), -factor
            elif operand.op in _SHAPES - {"sum", "mean"}:
                operand = values.resolved(operand.parents[0])
            else:
                return
        tracked = self.model.tracking.tracked(value) if call is None else self.model.tracking.tracked_in(value, call)
        if operand.op not in _CLAMPS or operand.site is None or tracked is values.Answer.NO:
            return
        for bound, exact in self._bounds(operand):
            if factor * bound + shift in bad:
                is_sure = tracked is values.Answer.YES
                yield AtSingularity(value.site, operand.site, value.op, bound, not exact, is_sure)
                return

    def _singular(self, value: values.Tensor) -> tuple[float, ...]:
        """The operands at which an operation is infinite, or its gradient."""
        if value.op in _AT_ZERO:
            return (0.0,)
        if value.op == operators.POW and len(value.parents) == 2:
            power = self._number(value.parents[1])
            return (0.0,) if isinstance(power, float) and power < 1 else ()
        return (1.0, -1.0) if value.op in _AT_ONE else (-1.0,) if value.op == "log1p" else ()

    def _bounds(self, clamp: values.Tensor) -> Iterator[tuple[float, bool]]:
        """The bounds of a clamp in single precision, and whether each is written exactly so."""
        known = self.model.program.observations.calls.get(clamp)
        if known is None:
            return
        name, arguments, receiver = known
        start = 0 if receiver is not None else 1
        given = [arguments.get(start, "min"), arguments.get(start + 1, "max")]
        if name in ("clamp_max",):
            given = [arguments.get(start, "max")]
        for item in given:
            number = self._number(item) if item is not None else None
            if number is not None:
                is_one = number not in (1, -1) and abs(abs(number) - 1) < _HALF
                yield (round(number), False) if is_one else (float(number), True)

    def _number(self, value: values.Value, steps: int = 6) -> float | None:
        """A number that is written, by default that of a parameter, or the sum or difference of two; None: not known."""
        value = values.resolved(value)
        node = self.model.tree.node(value.site) if value.site is not None else None
        if isinstance(value, values.Parameter) and isinstance(node, python_ast.FUNCTIONS):
            return _literal(definitions.defaults_of(node).get(value.label))
        if isinstance(value, values.Plain) and value.is_literal:
            constant = value.constant
            return constant if isinstance(constant, (int, float)) and not isinstance(constant, bool) else None
        known = self.model.program.observations.numbers.get(value)
        operator, parts = (value.op, value.parents) if isinstance(value, values.Tensor) else (known or ("", ()))[:2]
        if operator in (operators.ADD, operators.SUB) and len(parts) == 2 and steps:
            left, right = (self._number(item, steps - 1) for item in parts)
            if left is not None and right is not None:
                return left + right if operator == operators.ADD else left - right
        return _literal(node)

    def report_AtSingularity(self, found: AtSingularity) -> None:
        bound = "a bound that is 1 in single precision" if found.is_rounded else f"the bound {found.bound:g}"
        self.report(
            found.site,
            f"`{found.name}` takes {bound}, where it is infinite or has an infinite gradient",
            related=[(found.clamp, "values beyond the bound become the bound here")],
            help="leave a gap that single precision can hold, such as 1e-6",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )


def _literal(node: ast.AST | None) -> float | None:
    """The number that literals make: `-1 + 1e-6`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(node.operand)
        return -inner if inner is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left, right = _literal(node.left), _literal(node.right)
        if left is not None and right is not None:
            return left + right if isinstance(node.op, ast.Add) else left - right
    return None
