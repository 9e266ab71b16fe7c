"""CTC losses whose input lengths are the batch size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_KEEPING = frozenset("log_softmax float double contiguous to cuda cpu detach requires_grad_ log".split())
_SWAPPED = {"transpose": ((0, 1), (1, 0)), "permute": ((1, 0, 2),)}


class BatchLength(NamedTuple):
    """The length at `length` is the size of the batch of the input of the loss at `loss`."""

    length: Site
    loss: Site
    name: str


class BatchAsCtcLength(Rule):
    """The input lengths of a CTC loss are the batch size.

    ## What it does
    Finds `input_lengths` that hold the number of samples instead of the number of time steps. `ctc_loss` expects
    log-probabilities of shape (time, batch, classes), so `log_probs.size(1)` is the number of samples.

    ## Why is this bad?
    The loss uses only as many time steps as the batch has samples, and ignores the rest of each sequence. The model
    learns to put all characters at the start. With small batches, the targets are longer than the input, and the loss
    is infinite, or 0 with `zero_infinity=True`.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(log_probs, targets, target_lengths):
        n = len(target_lengths)
        input_lengths = torch.full((n,), log_probs.size(1), dtype=torch.long)
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(log_probs, targets, target_lengths):
        n = len(target_lengths)
        input_lengths = torch.full((n,), log_probs.size(0), dtype=torch.long)
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths)
    ```

    ## References
    - [torch.nn.CTCLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html)
    """

    code = "TL512"
    category = Category.CORRECTNESS
    triggers = ((b"ctc", b"CTC"), (b".size(", b".shape"))

    def ask(self) -> Iterator[BatchLength]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if len(call.args) < 3 or not self._is_ctc(call):
                continue
            scores, is_swapped = _scores(call.args[0])
            size = self._size(written.value_of(call.args[2], self.model.definitions))
            if not scores or size is None or self._is_rebound(scores, size, call):
                continue
            if _dimension(size, scores) == (0 if is_swapped else 1):
                yield BatchLength(python_ast.site_of(size), python_ast.site_of(call), self.model.tree.code(size))

    def _is_ctc(self, call: ast.Call) -> bool:
        """Whether a call computes a CTC loss of PyTorch."""
        if names.imported(call.func, self.model.definitions) == "torch.nn.functional.ctc_loss":
            return True
        made = written.value_of(call.func, self.model.definitions)
        return isinstance(made, ast.Call) and (names.imported(made.func, self.model.definitions) == "torch.nn.CTCLoss")

    def _size(self, lengths: ast.expr) -> ast.expr | None:
        """The size that is the length of every sample: `torch.full((n,), SIZE)`, `torch.tensor([SIZE] * n)`."""
        while isinstance(lengths, ast.Call) and isinstance(lengths.func, ast.Attribute):
            if python_ast.called_name(lengths) not in _KEEPING | {"long", "int"}:
                break
            lengths = lengths.func.value
        if not isinstance(lengths, ast.Call):
            return None
        name = python_ast.called_name(lengths)
        if name == "full":
            given = written.argument(lengths, 1, "fill_value")
        elif name in ("Variable", "tensor", "as_tensor", "IntTensor", "LongTensor") and lengths.args:
            inner = lengths.args[0]
            if isinstance(inner, ast.Call):
                return self._size(inner)
            is_repeated = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult)
            item = inner.left if isinstance(inner, ast.BinOp) and is_repeated else None
            given = item.elts[0] if isinstance(item, ast.List) and len(item.elts) == 1 else None
        else:
            given = None
        return written.value_of(given, self.model.definitions) if given is not None else None

    def _is_rebound(self, scores: str, size: ast.expr, call: ast.Call) -> bool:
        """Whether code may bind the scores again between the size and the loss, or elsewhere."""
        scope = self.model.tree.scope_around(call)
        return self.model.tree.scope_around(size) is not scope or any(
            size.lineno <= node.lineno <= call.lineno for node in names.stores({scores}, scope)
        )

    def report_BatchLength(self, found: BatchLength) -> None:
        self.report(
            found.length,
            f"`{found.name}` is the number of samples, but `ctc_loss` expects the number of time steps here",
            related=[(found.loss, "the input of this loss has the shape (time, batch, classes)")],
            help="use the size of the time dimension",
        )


def _scores(node: ast.expr) -> tuple[str, bool]:
    """The name of the tensor that the loss gets, and whether the code swaps its first two dimensions on the way."""
    is_swapped = False
    while isinstance(node, ast.Call):
        name = python_ast.called_name(node)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if owner is None:
            node = node.args[0] if name in _KEEPING and node.args else ast.Constant(None)
        elif name in _KEEPING:
            is_function = python_ast.dotted(owner) in ("torch", "F", "functional")
            node = node.args[0] if is_function and node.args else owner
        elif name in _SWAPPED and tuple(map(numbers.literal, node.args)) in _SWAPPED[name]:
            is_swapped, node = not is_swapped, owner
        else:
            return "", False
    return python_ast.dotted(node), is_swapped


def _dimension(size: ast.expr, scores: str) -> int | None:
    """The dimension of the scores that `x.size(1)` or `x.shape[1]` measures."""
    if isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape":
        owner, index = size.value.value, numbers.literal(size.slice)
    elif isinstance(size, ast.Call) and python_ast.called_name(size) == "size" and len(size.args) == 1:
        owner = size.func.value if isinstance(size.func, ast.Attribute) else size
        index = numbers.literal(size.args[0])
    else:
        return None
    return int(index) if index is not None and python_ast.dotted(owner) == scores else None
