"""Views of tensors whose elements are in another order in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule, Safety, edits

from . import _written_sizes as written_sizes

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import Misfit


class ViewOfTransposed(Rule):
    """`view` merges dimensions that a `transpose` or `permute` has separated.

    ## What it does
    Finds `view` after `transpose`, `permute`, `t` or `.T`, if torchlint knows the sizes and the memory layout does not
    allow this `view`.

    ## Why is this bad?
    A view shares the memory of its tensor. It cannot merge dimensions that are not adjacent in memory, so `view` raises
    "view size is not compatible with input tensor's size and stride".

    ## Example
    ```python
    import torch

    x = torch.randn(8, 3, 32)
    y = x.transpose(1, 2).view(8, 96)
    ```

    Use instead:
    ```python
    import torch

    x = torch.randn(8, 3, 32)
    y = x.transpose(1, 2).reshape(8, 96)
    ```

    ## Fix safety
    The fix replaces `view` with `reshape`. It is safe: `reshape` copies if `view` would raise, and otherwise does the
    same. There is no fix if code writes to the view.

    ## References
    - [torch.Tensor.view](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html)
    """

    code = "TL706"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"view",), (b"transpose", b"permute", b"t(", b".T", b"swap"))
    calls = written_sizes.CALLS

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return written_sizes.writes_tensor(code)

    def ask(self) -> Iterator[Misfit]:
        yield from (misfit for misfit in self.model.shapes.misfits if misfit.what == "view" and not misfit.related)

    def report_Misfit(self, misfit: Misfit) -> None:
        self.report(
            misfit.site,
            "`view` merges dimensions that are not adjacent in memory: this call raises",
            help="use `reshape`, which copies where necessary",
            fix=self._fix(misfit),
        )

    def _fix(self, misfit: Misfit) -> edits.Change | None:
        import libcst as cst

        if self._is_written_to(self.model.tree.node(misfit.site)):
            return None
        node = self.nodes.at(misfit.site) if self.nodes is not None else None
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "view":
            return None
        change = edits.Replace(node.func.attr, "reshape")
        return edits.Change("use `reshape`", [change], Safety.SAFE)

    def _is_written_to(self, view: ast.AST) -> bool:
        """Whether code writes to the view directly: `x.t().view(-1)[0] = 1`. A copy would not reach the tensor."""
        around = self.model.tree.parent(view)
        if isinstance(around, ast.Subscript):
            return not isinstance(around.ctx, ast.Load) or self._is_written_to(around)
        return isinstance(around, ast.Attribute) and around.attr.endswith("_")
