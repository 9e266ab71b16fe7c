"""Numbers that half precision cannot represent under `torch.autocast`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import losses, masks, numbers, precision
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_LARGEST = 65504.0
_HALF = "float16"
_LOGARITHMS = frozenset({operators.LOG, operators.LOG1P})
_SMALLEST = {_HALF: 2.0**-25, "bfloat16": 0.0}
_BELOW_ONE = {_HALF: 2.0**-12, "bfloat16": 2.0**-9}
"""The bound below which `1 - x` rounds to 1."""
_FILLS = frozenset({operators.MASKED_FILL, operators.MASKED_FILL_})


class Lost(NamedTuple):
    """The number at `site` gets lost in the type `dtype`, in one of several ways."""

    site: Site
    how: str
    number: float
    dtype: str


class LostInHalf(Rule):
    """Half precision cannot represent a number in code under `autocast`.

    ## What it does
    Finds, in code that runs in `torch.autocast`:

    - scores that are filled with a number such as -1e9
    - small numbers such as 1e-8 that are added to a sigmoid
    - bounds such as `1 - 1e-6`
    - `binary_cross_entropy`, which raises there

    ## Why is this bad?
    The largest float16 number is 65504, so `masked_fill(mask, -1e9)` raises in float16. float16 has no number between 0
    and 5.9e-8. Neither float16 nor bfloat16 has one between 0.99952 and 1. The number that should protect a logarithm
    is lost, and the loss or its gradient is infinite.

    ## Example
    ```python
    import torch
    from torch import nn

    layer = nn.Linear(8, 8)

    def step(x):
        with torch.autocast("cuda"):
            p = torch.sigmoid(layer(x))
            return torch.log(p + 1e-8).mean()
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    layer = nn.Linear(8, 8)

    def step(x):
        with torch.autocast("cuda"):
            p = torch.sigmoid(layer(x).float())
            return torch.log(p + 1e-8).mean()
    ```

    ## References
    - [Automatic mixed precision: operators and their types](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference)
    """

    code = "TL537"
    category = Category.CORRECTNESS
    triggers = ((b"autocast",), (b"1e", b"-10", b"binary_cross_entropy", b"BCELoss"))
    calls = frozenset({"autocast", "masked_fill", "binary_cross_entropy", "BCELoss", "log", "clamp"})

    def ask(self) -> Iterator[Lost]:
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                dtype = precision.autocast_of(event, self.model.program)
                for value, _ in masks.computed_in_calls(event.value) if dtype else ():
                    found = self._lost(value, dtype)
                    if found is not None and found.site not in seen:
                        seen.add(found.site)
                        yield found

    def _lost(self, value: values.Tensor, dtype: str) -> Lost | None:
        if value.site is None or not value.parents:
            return None
        if losses.loss_function(value) == "binary_cross_entropy" and dtype == _HALF:
            return Lost(value.site, "raises", 0, dtype)
        if value.op in _FILLS and dtype == _HALF and len(value.parents) > 2:
            number = self._number(value.parents[2])
            if number is not None and _LARGEST < abs(number) < float("inf") and self._is_half(value.parents[0]):
                return Lost(value.site, "large", number, dtype)
        if value.op in _LOGARITHMS or (value.op == operators.DIV and len(value.parents) > 1):
            return self._unprotected(value.parents[1 if value.op == operators.DIV else 0], value.op, dtype)
        return None

    def _unprotected(self, operand: values.Value, op: str, dtype: str) -> Lost | None:
        """A small number in a logarithm's operand or a quotient's denominator that is 0 in half precision."""
        operand = values.resolved(operand)
        if not isinstance(operand, values.Tensor) or operand.site is None or not operand.parents:
            return None
        if operand.op == operators.NEG and op == operators.LOG1P:
            operand = values.resolved(operand.parents[0])
        if not isinstance(operand, values.Tensor) or operand.site is None or not operand.parents:
            return None
        inner = operand.parents[0]
        if operand.op == operators.ADD and len(operand.parents) == 2:
            number = self._number(operand.parents[1])
            if number is not None and 0 < number < _SMALLEST[dtype] and self._is_half(inner):
                return Lost(operand.site, "small", number, dtype)
        if operand.op != operators.CLAMP or not self._is_half(inner):
            return None
        low, high = (
            self._number(numbers.argument(operand, index, name, self.model.program))
            for index, name in enumerate(("min", "max"))
        )
        if low is not None and 0 < low < _SMALLEST[dtype] and op != operators.LOG1P:
            return Lost(operand.site, "small", low, dtype)
        if high is not None and 0 < 1 - high < _BELOW_ONE[dtype] and op == operators.LOG1P:
            return Lost(operand.site, "below one", high, dtype)
        return None

    def _is_half(self, value: values.Value) -> bool:
        return precision.is_half(value, self.model.tree)

    def _number(self, value: values.Value | None) -> float | None:
        return numbers.of(value, self.model.program)

    def report_Lost(self, found: Lost) -> None:
        messages = {
            "raises": "`binary_cross_entropy` raises under autocast",
            "large": f"{found.number:g} is out of range for these {found.dtype} scores: the call raises",
            "small": f"{found.number:g} is 0 in {found.dtype}, so it has no effect under autocast",
            "below one": f"{found.number:g} is 1 in {found.dtype}, so the bound has no effect under autocast",
        }
        advice = {
            "raises": "remove the sigmoid and use `binary_cross_entropy_with_logits`",
            "large": 'use `float("-inf")`, or `torch.finfo(scores.dtype).min`',
        }
        self.report(found.site, messages[found.how], help=advice.get(found.how, "compute this part in `.float()`"))
