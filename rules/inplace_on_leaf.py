"""Leaves that require grad, changed in place while gradients are on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torchlint import Category, Rule, edits, prefilter

if TYPE_CHECKING:
    from torchlint.model.queries.mutation import LeafChanged
    from torchlint.syntax.matching import Nodes
    from torchlint.syntax.python_ast import Site


class InplaceOnLeaf(Rule):
    """A leaf that requires grad is changed in place while gradients are on.

    ## What it does
    Finds parameters and other leaves that require grad changed by `+=`, `x[...] =`, `add_` and their kin
    outside `torch.no_grad()`.

    ## Why is this bad?
    PyTorch raises "a leaf Variable that requires grad is being used in an in-place operation".

    ## Example
    ```python
    import torch

    weight = torch.randn(3, requires_grad=True)
    for _ in range(10):
        loss = (weight * 2).sum()
        loss.backward()
        weight -= 0.1 * weight.grad
        weight.grad = None
    ```

    Use instead:
    ```python
    import torch

    weight = torch.randn(3, requires_grad=True)
    for _ in range(10):
        loss = (weight * 2).sum()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
    ```

    ## Fix safety
    The fix wraps the change, and those next to it, in `with torch.no_grad():`. It is unsafe: if the change was meant
    to be part of the graph, another formula is needed.

    ## What verify shows
    `torchlint verify` confirms it by PyTorch raising at the line, and refutes it by changes there without an
    error.

    ## Known limits
    Parameters of modules that a function is handed, or of which it is a method that nobody here calls, are left alone
    where nothing shows that gradients are on: its callers may have switched them off.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL302"
    category = Category.CORRECTNESS
    triggers = ((b"requires_grad", b"Parameter", b"parameters", b"weight", b"bias", b"grad"),)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return prefilter.may_change_leaf(data)

    def ask(self) -> Iterable[LeafChanged]:
        self._changes = list(self.model.mutation.leaves_changed())
        return self._changes

    def report_LeafChanged(self, changed: LeafChanged) -> None:
        what = "a parameter" if changed.parameter else "a leaf that requires grad"
        self.report(
            changed.mutate.site,
            f"this changes {what} in place while gradients are on: PyTorch raises here",
            help="wrap the change in `with torch.no_grad():`",
            fix=self._fix(self.nodes, changed.mutate.site) if self.nodes is not None else None,
        )

    def _fix(self, nodes: Nodes, site: Site) -> edits.Change | None:
        """One block for all changes that follow each other."""
        no_grad = self.model.program.definitions.local_name("torch.no_grad")
        change, tree = nodes.at(site), nodes.tree
        block = tree.block(change) if change is not None else None
        if no_grad is None or change is None or not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        changes = (nodes.at(other.mutate.site) for other in self._changes)
        statements = {tree.statement(other) for other in changes if other is not None}
        body: list[cst.CSTNode] = list(block.body)
        first = last = body.index(tree.statement(change))
        while first and _only_changes(body[first - 1]) and body[first - 1] in statements:
            first -= 1
        while last + 1 < len(body) and _only_changes(body[last + 1]) and body[last + 1] in statements:
            last += 1
        if not _only_changes(body[first]):
            return None
        header = f"with {no_grad}():"
        return edits.Change(f"wrap it in `{header}`", [edits.Enclose(body[first], body[last], header)])


def _only_changes(statement: cst.CSTNode) -> bool:
    """Whether a statement makes no tensor that could want a graph."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return bool(parts) and all(
        isinstance(part, (cst.AugAssign, cst.Expr))
        or (isinstance(part, cst.Assign) and all(isinstance(item.target, cst.Subscript) for item in part.targets))
        for part in parts
    )
