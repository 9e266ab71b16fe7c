"""Layers and operations that are given tensors of a size that they do not take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule

from . import _written_sizes as written_sizes

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import Misfit


class ShapeMismatch(Rule):
    """A layer or operation is given a tensor of a size that it does not take.

    ## What it does
    Follows the sizes that are written out through layers, `view`, `flatten`, `transpose`, `cat`, `matmul` and
    arithmetic, in functions, in the `forward` of modules and in `Sequential`. Finds what must raise, whatever the
    sizes are that nobody knows: `Linear`, `Conv2d`, `BatchNorm2d`, `LSTM` and their like with another number of
    features or channels than they are given, layers of a `Sequential` that do not fit each other, products of matrices
    that do not fit, `cat` and `stack` of other sizes, `view` to another number of elements, operands that cannot be
    broadcast, dimensions that are not there.

    ## Why is this bad?
    The line raises as soon as it runs. In a branch that is seldom taken, or after hours of loading data, that is late.

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

    ## Known limits
    Only files are read in which a layer takes a size that no layer before it gives or takes, in the order of the file,
    or in which tensors of literal sizes are made. Layers of other files, and sizes from data, are not known.

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
        self.report(misfit.site, f"{name} {misfit.reason}: it raises", related=related)
