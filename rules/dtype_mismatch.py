"""Operations that receive a dtype that they do not support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern

from . import _written_sizes as written_sizes

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import Misfit

_MEAN = LazyPattern(rb"\)\s*\.\s*mean\s*\(")
_COMMENT = LazyPattern(rb"#[^\n]*")
_FEW = 400
"""The maximum length in bytes of a comparison whose mean is taken."""


def _means_comparison(data: bytes) -> bool:
    """Whether a file takes the mean of a comparison in brackets: `(predicted == labels).mean()`."""
    if b"mean" not in data:
        return False
    return any(b"==" in _in_brackets(data, found.start()) for found in _MEAN.finditer(data))


def _in_brackets(data: bytes, end: int) -> bytes:
    """The text inside the brackets that close here, if it is on few lines."""
    text, depth = _COMMENT.sub(b"", data[max(0, end - _FEW) : end + 1]), 0
    for place in range(len(text) - 1, -1, -1):
        depth += {b")": 1, b"(": -1}.get(text[place : place + 1], 0)
        if depth == 0:
            return text[place:]
    return text


class DtypeMismatch(Rule):
    """An operation gets a dtype that it does not support.

    ## What it does
    Tracks dtypes from sources that determine them (`randint`, `.long()`, comparisons, layers) to operations that do not
    support them:

    - `mean` of integers or booleans
    - layers and matrix products with integers
    - `Embedding` and `one_hot` with floating-point numbers

    ## Why is this bad?
    The line raises an error as soon as it runs, such as "mean(): could not infer output dtype" or "mat1 and mat2 must
    have the same dtype".

    ## Example
    ```python
    from torch import nn

    def accuracy(x, labels):
        logits = nn.Linear(16, 10)(x)
        return (logits.argmax(dim=1) == labels).mean()
    ```

    Use instead:
    ```python
    from torch import nn

    def accuracy(x, labels):
        logits = nn.Linear(16, 10)(x)
        return (logits.argmax(dim=1) == labels).float().mean()
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises an error at the line. It refutes the finding if the
    line ran three times without an error.

    ## References
    - [torch.mean](https://docs.pytorch.org/docs/stable/generated/torch.mean.html)
    """

    code = "TL707"
    category = Category.CORRECTNESS
    triggers = ((b"torch",),)
    calls = written_sizes.CALLS | {"mean"}

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return _means_comparison(code) or written_sizes.may_not_fit(code)

    def ask(self) -> Iterator[Misfit]:
        yield from (misfit for misfit in self.model.shapes.misfits if misfit.what == "dtype")

    def report_Misfit(self, misfit: Misfit) -> None:
        name = written_sizes.called(self.model.tree.node(misfit.site))
        self.report(misfit.site, f"{name} {misfit.reason}: this call raises", related=list(misfit.related))
