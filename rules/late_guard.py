"""Conditions that are applied after the operation that they should protect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events, values
from torchlint.model.queries import masks
from torchlint.model.queries import numbers as numbers_of
from torchlint.model.relations import domain
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_STEPS = 24
"""The number of values to search between a condition and the operation."""
_AT_ZERO = frozenset({"log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"})
_ROOTS = frozenset({"sqrt", "rsqrt", operators.POW})
_LOGS = frozenset({"log", "log2", "log10"})
_SMOOTH = frozenset("add sub rsub mul neg sum mean log1p log float view reshape squeeze unsqueeze where".split())
_OF_MASKS = frozenset("bitwise logical_not logical_and logical_or float double to type_as bool long int".split())
_MASK_METHODS = {"eq": ast.Eq, "ne": ast.NotEq, "gt": ast.Gt, "lt": ast.Lt, "ge": ast.GtE, "le": ast.LtE}
_NEAR_ZERO = 1e-3
"""A threshold up to this number keeps a value away from 0."""
_NEAR_ROOT = 0.05
"""The same for a power such as `x ** (1 / 2.4)`, which is NaN for all negative numbers."""
_OVERFLOW = 10
"""A threshold from this number on keeps an exponential in range."""


class Late(NamedTuple):
    """The condition at `guard` tests the operand of the operation at `operation`, but comes after it."""

    guard: Site
    operation: Site
    is_product: bool
    """Whether a mask multiplies the result, so that the result itself is NaN, besides its gradient."""
    is_sure: bool


class LateGuard(Rule):
    """A condition comes after the operation that it should protect.

    ## What it does
    Finds `torch.where`, `masked_fill`, `y[mask] = 0` and products with a mask, where the condition excludes exactly the
    values for which an operation is infinite or NaN. Examples:

    - `torch.where(n > 0, x / n, 0)`
    - `torch.log(p) * (p > 0)`
    - `torch.where(x > 20, x, torch.log1p(torch.exp(x)))`

    Reported only with `--preview`: code where torchlint cannot tell whether gradients are computed.

    ## Why is this bad?
    The operation runs for all values. `torch.where` drops the bad results and gives them a gradient of 0. Multiplied by
    the operation's infinite derivative, this gradient becomes NaN, and it reaches all weights. In a product, 0 times
    infinity is NaN immediately.

    ## Example
    ```python
    import torch

    def train(model: torch.nn.Linear, x, optimizer):
        out = model(x)
        count = out.abs().sum(-1, keepdim=True)
        loss = torch.where(count != 0, out / count, 0.0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model: torch.nn.Linear, x, optimizer):
        out = model(x)
        count = out.abs().sum(-1, keepdim=True)
        safe = torch.where(count != 0, count, 1.0)
        loss = torch.where(count != 0, out / safe, 0.0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## References
    - [pytorch#68425: `torch.where` produces nan in the backward pass](https://github.com/pytorch/pytorch/issues/68425)
    """

    code = "TL521"
    category = Category.CORRECTNESS
    triggers = ((b"where", b"masked_fill", b">", b"<", b"==", b"!="), (b"log", b"sqrt", b"exp", b"/", b"reciprocal"))
    calls = frozenset({"where", "masked_fill"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return any(map(_may_guard, index.compared_values)) or index.names_one(_MASK_METHODS)

    def ask(self) -> Iterator[Late]:
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                for value, calls in masks.computed_in_calls(event.value):
                    for condition, guarded, is_product in self._guards(value) if value.site is not None else ():
                        for late in self._late(value.site or event.site, condition, guarded, is_product, calls):
                            if late.guard not in seen:
                                seen.add(late.guard)
                                yield late
            chosen = {site: mask for site, _, mask in self.model.program.observations.masked}
            for change in trace.of(events.Mutate):
                if change.how == operators.SETITEM and change.site in chosen:
                    yield from self._late(change.site, chosen[change.site], change.target, is_product=False)

    def _guards(self, value: values.Tensor) -> Iterator[tuple[values.Value, values.Value, bool]]:
        """Pairs of a condition and the value that it selects."""
        if value.op == operators.WHERE and len(value.parents) == 3:
            for arm in value.parents[1:]:
                yield value.parents[0], arm, False
        elif value.op == operators.MASKED_FILL and len(value.parents) == 3:
            yield value.parents[1], value.parents[0], False
        elif value.op == operators.MUL and len(value.parents) == 2:
            yield value.parents[0], value.parents[1], True
            yield value.parents[1], value.parents[0], True

    def _late(
        self,
        site: Site,
        condition: values.Value,
        guarded: values.Value,
        is_product: bool,
        calls: masks.Calls = (),
    ) -> Iterator[Late]:
        tests = list(self._tests(condition))
        for operation, operand in self._operations(guarded, is_product) if tests else ():
            for tested, operator, bound in tests:
                numbers = self.model.domain.of(masks.argument(operand, calls))
                if not self._excludes(operation, operand, tested, operator, bound, numbers, is_product):
                    continue
                tracked = self.model.tracking.tracked_in_calls(operation, calls)
                is_off = tracked is values.Answer.NO or self.model.domain.is_detached(operation)
                if operation.site is not None and (is_product or not is_off):
                    yield Late(site, operation.site, is_product, is_product or tracked is values.Answer.YES)
                    return

    def _tests(self, condition: values.Value) -> Iterator[tuple[values.Value, type[ast.cmpop], float]]:
        """The comparisons with a number inside a condition."""
        stack = [condition]
        for _ in range(_STEPS):
            if not stack:
                return
            item = values.resolved(stack.pop())
            if not isinstance(item, values.Tensor) or isinstance(item, values.ModuleOutput):
                continue
            if item.op in _OF_MASKS:
                stack.extend(item.parents)
            elif len(item.parents) == 2 and (operator := self._operator(item)) is not None:
                bound = values.resolved(item.parents[1])
                number = bound.constant if isinstance(bound, values.Plain) and bound.is_literal else None
                number = 0 if number is None and self.model.domain.is_epsilon(bound) else number
                if isinstance(number, (int, float)):
                    yield values.resolved(item.parents[0]), operator, number

    def _operator(self, comparison: values.Tensor) -> type[ast.cmpop] | None:
        if comparison.op in _MASK_METHODS:
            return _MASK_METHODS[comparison.op]
        node = self.model.tree.node(comparison.site) if comparison.site is not None else None
        if isinstance(node, ast.Call):
            return _MASK_METHODS.get(python_ast.called_name(node))
        return type(node.ops[0]) if isinstance(node, ast.Compare) and len(node.ops) == 1 else None

    def _operations(self, value: values.Value, is_product: bool) -> Iterator[tuple[values.Tensor, values.Value]]:
        """The operations in an operand that are infinite for some values, each with the value that decides it."""
        stack = [value]
        for _ in range(_STEPS):
            item = values.resolved(stack.pop()) if stack else None
            if not isinstance(item, values.Tensor) or isinstance(item, values.ModuleOutput):
                if item is None:
                    return
                continue
            if item.op == operators.DIV and len(item.parents) == 2:
                yield item, values.resolved(item.parents[1])
            elif item.parents and self._is_unsafe(item, is_product):
                yield item, values.resolved(item.parents[0])
            if item.op in _SMOOTH | {operators.DIV}:
                stack.extend(item.parents)

    def _is_unsafe(self, operation: values.Tensor, is_product: bool) -> bool:
        """Whether an operator of one operand is infinite or NaN for some numbers."""
        if operation.op == operators.POW and len(operation.parents) == 2:
            exponent = numbers_of.of(operation.parents[1], self.model.program)
            return exponent is not None and 0 < exponent < 1
        return operation.op in _AT_ZERO or (operation.op == operators.EXP and not is_product)

    def _excludes(
        self,
        operation: values.Tensor,
        operand: values.Value,
        tested: values.Value,
        operator: type[ast.cmpop],
        bound: float,
        numbers: domain.Domain | None,
        is_product: bool,
    ) -> bool:
        """Whether a comparison excludes values for which an operation is infinite."""
        if operation.op == operators.EXP:
            return operand is tested and bound >= _OVERFLOW and operator in (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
        is_absolute = isinstance(tested, values.Tensor) and tested.op == operators.ABS
        inner = values.resolved(tested.parents[0]) if is_absolute else tested
        most = _NEAR_ROOT if operation.op == operators.POW else _NEAR_ZERO
        if operand not in (tested, inner) or not 0 <= bound <= most:
            return False
        if numbers is not None and numbers.zero is values.Answer.NO:
            return False
        is_from_zero = numbers is not None and numbers.kind in (domain.Kind.NON_NEGATIVE, domain.Kind.PROBABILITIES)
        is_negative_bad = operation.op in _ROOTS or (is_product and operation.op in _LOGS)
        return is_absolute or is_from_zero or operator in (ast.Eq, ast.NotEq) or is_negative_bad

    def report_Late(self, late: Late) -> None:
        then = "the product is NaN" if late.is_product else "the gradient is NaN"
        self.report(
            late.guard,
            f"the condition comes too late: the operation runs on all values, and {then} for those that the condition "
            "excludes",
            related=[(late.operation, "the operation is here")],
            help="replace the bad values of the operand before the operation, as in `torch.where(mask, x, 1.0)`",
            confidence=Confidence.HIGH if late.is_sure else Confidence.LOW,
        )


def _may_guard(comparison: ast.Compare) -> bool:
    """Whether a comparison may be with a number that guards an operation."""
    bound = comparison.comparators[0]
    is_one = len(comparison.ops) == 1 and isinstance(comparison.ops[0], tuple(_MASK_METHODS.values()))
    if not is_one or not isinstance(bound, ast.Constant):
        return is_one
    number = bound.value
    return isinstance(number, (int, float)) and (0 <= number <= _NEAR_ZERO or number >= _OVERFLOW)
