"""Layers and operations that receive a tensor of a size that they do not accept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule

from . import _written_sizes as written_sizes

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import Misfit


class ShapeMismatch(Rule):
    """A layer or operation receives a tensor size that it does not accept.

    ## What it does
    Tracks literal sizes through layers, `view`, `flatten`, `transpose`, `cat`, `matmul` and arithmetic, in
    functions, in the `forward` of modules and in `Sequential`. Finds lines that raise for any value of the unknown
    sizes:

    - `Linear`, `Conv2d`, `BatchNorm2d`, `LSTM` and similar layers that receive the wrong number of features or channels
    - layers of a `Sequential` that do not fit each other
    - matrix products of incompatible sizes
    - `cat` and `stack` of tensors with different sizes
    - `view` to a different number of elements
    - operands that cannot be broadcast
    - dimensions that do not exist

    This rule is a preview because most of its findings are in code that never runs.

    ## Why is this bad?
    The line raises as soon as it runs. In a rarely used branch, or after hours of loading data, this wastes a long run.

    ## Example
    ```python
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 5)
            self.fc = nn.Linear(16 * 4 * 4, 10)

        def forward(self, x):
            x = self.conv(x).relu()
            return self.fc(x.view(-1, 16 * 5 * 5))
    ```

    Use instead:
    ```python
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 5)
            self.fc = nn.Linear(16 * 5 * 5, 10)

        def forward(self, x):
            x = self.conv(x).relu()
            return self.fc(x.view(-1, 16 * 5 * 5))
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises an error at the line. It refutes the finding if the
    line ran three times without an error.

    ## Known limits
    torchlint analyzes only files that contain one of these:

    - a layer whose input size is neither the input size nor the output size of an earlier layer in the file
    - tensors with literal sizes

    Layers from other files, and sizes that come from data, are unknown.

    ## References
    - [torch.nn.Linear](https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html)
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL705"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"torch",),)
    calls = written_sizes.CALLS

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        return written_sizes.may_not_fit(code)

    def ask(self) -> Iterator[Misfit]:
        yield from (misfit for misfit in self.model.shapes.misfits if misfit.what == "shape")

    def report_Misfit(self, misfit: Misfit) -> None:
        name = written_sizes.called(self.model.tree.node(misfit.site))
        related = [(site, reason) for site, reason in misfit.related]
        self.report(misfit.site, f"{name} {misfit.reason}: this call raises", related=related)
