"""Loss targets with a dtype that the loss does not support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import losses

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import TensorType
    from torchlint.syntax.python_ast import Site

_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_CLASSES = ("cross_entropy", "nll_loss")
_INTEGERS = (b".long(", b".int(", b".bool(", b"torch.long", b"torch.int", b"torch.bool", b"randint", b"full(")
_NO_INDICES = (b".int()", b"torch.int32", b"torch.bool", b".bool()", b"one_hot(")
"""Signs of target types that are not class indices."""
_FULL_OF_INTEGERS = (1, 7)
"""The release since which `torch.full(size, 1)` returns integers."""
_FLOATING = LazyPattern(rb"\.(?:float|double)\s*\(\)")
_LOSS = LazyPattern(rb"(?:loss\w*|crit\w*|entropy)\s*\(")


def _converts_in_loss(data: bytes) -> bool:
    """Whether a line calls a loss and then converts to floating point numbers."""
    found = ((data.rfind(b"\n", 0, item.start()) + 1, item.start()) for item in _FLOATING.finditer(data))
    return any(_LOSS.search(data, start, end) for start, end in found)


class WrongTarget(NamedTuple):
    """The loss at `loss` does not support targets of this `dtype`."""

    loss: Site
    function: str
    dtype: str


class LossTargetDtype(Rule):
    """A loss gets targets of a dtype that it does not support.

    ## What it does
    Finds these losses if torchlint knows that the target has an unsupported dtype (`.long()`, `.int()`, a comparison,
    `randint`, `argmax`):

    - `binary_cross_entropy`, `binary_cross_entropy_with_logits`, `BCELoss` and `BCEWithLogitsLoss` with integers or
      booleans as targets
    - `nll_loss` and `NLLLoss` with class indices of a dtype other than `int64`
    - `cross_entropy` and `CrossEntropyLoss` with class indices of dtype `int32` or `bool`
    - `cross_entropy` and `CrossEntropyLoss` with `one_hot`, which returns integers
    - `cross_entropy` and `CrossEntropyLoss` with one-dimensional floating-point targets for a two-dimensional input

    ## Why is this bad?
    The loss raises an error such as "result type Float can't be cast to the desired output type Long" or "expected
    target dtype to be Long or Byte".

    ## Example
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        return F.binary_cross_entropy_with_logits(model(x), y.long())
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        return F.binary_cross_entropy_with_logits(model(x), y.float())
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises an error at the line. It refutes the finding if the
    line ran three times without an error.

    ## References
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "TL509"
    category = Category.CORRECTNESS
    triggers = ((b"cross_entropy", b"CrossEntropy", b"nll_loss", b"NLLLoss", b"BCE"),)
    calls = frozenset(
        "binary_cross_entropy binary_cross_entropy_with_logits BCELoss BCEWithLogitsLoss nll_loss NLLLoss "
        "cross_entropy CrossEntropyLoss".split()
    )

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        if any(word in code for word in (b"BCE", b"binary_cross_entropy")):
            return any(word in code for word in _INTEGERS)
        return any(word in code for word in _NO_INDICES) or _converts_in_loss(code)

    def ask(self) -> Iterator[WrongTarget]:
        if self.model.torch.highest < _FULL_OF_INTEGERS:
            return
        for function in (*_BINARY, *_CLASSES):
            for event, loss in self.model.endings.losses(function):
                dtype = self._wrong(function, loss)
                if dtype is not None:
                    yield WrongTarget(event.site, function, dtype)

    def _wrong(self, function: str, loss: values.Tensor) -> str | None:
        """The dtype of a target if the loss cannot accept it, whatever else is unknown about the target."""
        if function == "cross_entropy" and losses.takes_one_hot(loss):
            return "int64"
        operands = losses.operands(loss)
        types = self.model.shapes.types_of(operands[1]) if len(operands) > 1 else []
        if not types or not all(_is_wrong(function, item, self._rank(operands[0])) for item in types):
            return None
        return types[0].dtype

    def _rank(self, value: values.Value) -> int | None:
        ranks = {item.rank for item in self.model.shapes.types_of(value)}
        return ranks.pop() if len(ranks) == 1 else None

    def report_WrongTarget(self, answer: WrongTarget) -> None:
        is_indexed = answer.function not in _BINARY and answer.dtype != "int64"
        wanted = "class indices: `.long()`" if is_indexed else "floating point numbers: `.float()`"
        self.report(
            answer.loss,
            f"`{answer.function}` gets targets of dtype `{answer.dtype}`, which raises an error",
            help=f"give it {wanted}",
        )


def _is_wrong(function: str, target: TensorType, input_rank: int | None) -> bool:
    if function in _BINARY:
        return target.is_integral
    if target.dtype in ("int32", "int16", "int8", "bool"):
        return True
    if not target.is_floating:
        return False
    return function == "nll_loss" or (input_rank is not None and target.rank is not None and input_rank != target.rank)
