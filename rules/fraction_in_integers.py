"""Fractions that are stored in integer tensors, which truncate them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class CutOff(NamedTuple):
    """The fraction stored at `site` becomes `number` in a tensor of type `dtype`."""

    site: Site
    dtype: str
    fraction: float


class FractionInIntegers(Rule):
    """An integer tensor truncates a fraction that is stored in it.

    ## What it does
    Finds `weights[mask] = 0.5` where `weights` is an integer tensor: `torch.zeros_like(labels)` of `long` labels,
    `torch.zeros(n, dtype=torch.long)`, `torch.tensor([0, 0])`.

    ## Why is this bad?
    The tensor keeps its type, so 0.5 becomes 0 without an error. The weights of samples or classes are all 0. The loss
    is 0, or it counts only samples with a weight of 1.

    ## Example
    ```python
    import torch

    def weights(labels: torch.Tensor):
        found = torch.zeros(len(labels), dtype=torch.long)
        found[labels == 1] = 0.5
        return found
    ```

    Use instead:
    ```python
    import torch

    def weights(labels: torch.Tensor):
        found = torch.zeros(len(labels))
        found[labels == 1] = 0.5
        return found
    ```

    ## References
    - [Type promotion](https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.dtype)
    """

    code = "TL536"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (b"] = 0.", b"]= 0.", b"] = .", b"]=0.", b"] = 1.", b"] = 1 -"),
        (b"long", b"int", b"_like"),
    )
    calls = frozenset({"zeros_like", "ones_like", "zeros", "long", "full_like"})

    def ask(self) -> Iterator[CutOff]:
        for trace in [] if self.model.is_test else self.model.program.traces:
            for change in trace.of(events.Mutate):
                fraction = self._fraction(change) if change.how == operators.SETITEM else None
                types = self.model.shapes.types_of(change.target) if fraction is not None else []
                if fraction is not None and types and all(item.is_integral for item in types):
                    yield CutOff(change.site, types[0].dtype or "integers", fraction)

    def _fraction(self, change: events.Mutate) -> float | None:
        for value in change.by:
            number = values.resolved(value)
            constant = number.constant if isinstance(number, values.Plain) and number.is_literal else None
            if isinstance(constant, float) and constant != int(constant):
                return constant
        return None

    def report_CutOff(self, found: CutOff) -> None:
        self.report(
            found.site,
            f"{found.fraction} becomes {int(found.fraction)} here: the tensor holds {found.dtype}",
            help="create the tensor with `dtype=torch.float`",
        )
