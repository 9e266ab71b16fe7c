"""Leaves that require grad, changed in place while gradients are on."""

import libcst as cst

from torchlint import Category, Model, Rule


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

    ## What verify shows
    `torchlint verify` confirms it by PyTorch raising at the line, and refutes it by changes there without an
    error.

    ## Known limits
    Parameters of modules that a function is handed are left alone where nothing shows that gradients are on:
    its callers may have switched them off.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL302"
    category = Category.CORRECTNESS
    triggers = ((b"requires_grad", b"Parameter", b"parameters", b"weight", b"bias", b".grad"),)

    @classmethod
    def may_fire(cls, data: bytes) -> bool:
        return super().may_fire(data) and Model.changes_in_place(data)

    def visit_Module(self, node: cst.Module) -> None:
        for changed in self.model.mutation.leaves_changed():
            what = "a parameter" if changed.parameter else "a leaf that requires grad"
            self.report(
                changed.mutate.node,
                f"this changes {what} in place while gradients are on: PyTorch raises here",
                help="wrap the change in `with torch.no_grad():`",
            )
