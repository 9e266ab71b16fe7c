"""Clamps whose bound is exactly where an operation has an infinite value or gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import values
from torchlint.model.queries import masks, numbers
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_CLAMPS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "clamp_"})
_DOUBLE = (b"double", b"float64")
_AT_ZERO = frozenset({"log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"})
_AT_ONE = frozenset({"acos", "arccos", "asin", "arcsin", "atanh", "arctanh", "erfinv"})
_SHAPES = frozenset("view reshape squeeze unsqueeze flatten float getitem contiguous".split())
_HALF = 2.0**-25
"""The value from which on `1 - x` rounds to 1 in single precision."""


class AtSingularity(NamedTuple):
    """The clamp at `clamp` bounds the operand of `name` at `site` by `bound`, where `name` is infinite."""

    site: Site
    clamp: Site
    name: str
    bound: float
    is_rounded: bool
    is_sure: bool


class BoundAtSingularity(Rule):
    """A clamp allows a value at which the next operation or its gradient is infinite.

    ## What it does
    Finds `acos(x.clamp(-1, 1))`, `sqrt(x.clamp(min=0))`, `log(x.clamp(min=0))`, and `log(1 - p)` of a `p` clamped to 1,
    in the graph of a loss. A bound of `1 - 1e-8` counts as 1, because single precision rounds it to 1. Reported only
    with `--preview`: code where torchlint cannot tell whether gradients are computed.

    ## Why is this bad?
    The clamp is there because some values exceed the bound, and it sets them to the bound itself. At that bound, the
    logarithm is infinite. So is the gradient of the root and of the arc cosine. The clamp's own gradient is 0 there,
    and 0 times infinity is NaN. One such value turns all weights into NaN in that step.

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

    ## What verify shows
    `torchlint verify` confirms the finding if this line computes the first NaN or infinity of the run.

    ## References
    - [pytorch#8069: `acos` gives NaN gradients at 1](https://github.com/pytorch/pytorch/issues/8069)
    """

    code = "TL535"
    category = Category.CORRECTNESS
    triggers = ((b"clamp", b"clip"), (b"acos", b"asin", b"atanh", b"sqrt", b"log", b"arc", b"** 0.5", b"erfinv"))
    calls = frozenset({"acos", "arccos", "sqrt", "log", "clamp"})

    def ask(self) -> Iterator[AtSingularity]:
        seen = set[Site]()
        for value, calls in self.model.computed if not self.model.is_test else ():
            for found in self._found(value, calls):
                if found.site not in seen:
                    seen.add(found.site)
                    yield found

    def _found(self, value: values.Tensor, calls: masks.Calls) -> Iterator[AtSingularity]:
        bad = self._singular(value)
        clamp, factor, shift = self._clamp_under(value) if bad and value.parents else (None, 1.0, 0.0)
        if clamp is None or clamp.site is None or value.site is None:
            return
        tracked = self.model.tracking.tracked_in_calls(value, calls)
        is_off = tracked is values.Answer.NO or self.model.domain.is_detached(value)
        for bound, exact in self._bounds(clamp) if not is_off else ():
            if factor * bound + shift in bad and (exact or not self.model.mentions(_DOUBLE)):
                is_sure = tracked is values.Answer.YES
                yield AtSingularity(value.site, clamp.site, value.op, bound, not exact, is_sure)
                return

    def _clamp_under(self, value: values.Tensor) -> tuple[values.Tensor | None, float, float]:
        """The clamp behind an operand, with the factor and the summand applied to its result, as in `1 - x`."""
        operand, factor, shift = values.resolved(value.parents[0]), 1.0, 0.0
        for _ in range(6):
            if (
                not isinstance(operand, values.Tensor)
                or isinstance(operand, values.ModuleOutput)
                or not operand.parents
            ):
                break
            if operand.op in _CLAMPS:
                return operand, factor, shift
            if operand.op in (operators.SUB, operators.RSUB) and len(operand.parents) == 2 and shift == 0:
                first, second = operand.parents if operand.op == operators.SUB else operand.parents[::-1]
                if numbers.of(first, self.model.program) != 1:
                    break
                operand, factor, shift = values.resolved(second), -factor, factor
            elif operand.op == operators.NEG or operand.op in _SHAPES:
                factor = -factor if operand.op == operators.NEG else factor
                operand = values.resolved(operand.parents[0])
            else:
                break
        return None, factor, shift

    def _singular(self, value: values.Tensor) -> tuple[float, ...]:
        """The operands at which an operation or its gradient is infinite."""
        if value.op in _AT_ZERO:
            return (0.0,)
        if value.op == operators.POW and len(value.parents) == 2:
            power = numbers.of(value.parents[1], self.model.program)
            return (0.0,) if isinstance(power, float) and power < 1 else ()
        return (1.0, -1.0) if value.op in _AT_ONE else (-1.0,) if value.op == operators.LOG1P else ()

    def _bounds(self, clamp: values.Tensor) -> Iterator[tuple[float, bool]]:
        """The bounds of a clamp in single precision, and whether the code states each one exactly."""
        program = self.model.program
        given = [numbers.argument(clamp, index, name, program) for index, name in enumerate(("min", "max"))]
        given = given if clamp.op != operators.CLAMP_MAX else [numbers.argument(clamp, 0, "max", program)]
        for number in (numbers.of(item, program) for item in given):
            if number is not None:
                is_one = number not in (1, -1) and abs(abs(number) - 1) < _HALF
                yield (round(number), False) if is_one else (float(number), True)

    def report_AtSingularity(self, found: AtSingularity) -> None:
        bound = "a bound that rounds to 1 in single precision" if found.is_rounded else f"the bound {found.bound:g}"
        self.report(
            found.site,
            f"`{found.name}` receives {bound}, where its value or its gradient is infinite",
            related=[(found.clamp, "this clamp sets values beyond the bound to the bound")],
            help="leave a gap that single precision can represent, such as 1e-6",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )
