"""Optimizers that hold tensors which the program has replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule
from torchlint.model.relations import provenance
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import site_of

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class OptimizerOfOldTensor(Rule):
    """A tensor or network is replaced after its optimizer was created.

    ## What it does
    Finds `z = z.to(device)`, `z = z.clamp(0, 1)` and similar copies of a tensor that an optimizer already holds. Also
    finds a network that FSDP shards, or to which `get_peft_model` adds adapters, after its optimizer was created. Also
    finds an object that recreates its network but keeps its optimizer.

    ## Why is this bad?
    The optimizer updates the old tensor. The loss uses the new one, which does not change, and there is no error.

    ## Example
    ```python
    import torch

    def invert(net, target, device):
        z = torch.zeros(1, 64, requires_grad=True)
        optimizer = torch.optim.Adam([z], lr=0.1)
        z = z.to(device)
        for _ in range(100):
            optimizer.zero_grad()
            (net(z) - target).pow(2).mean().backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def invert(net, target, device):
        z = torch.zeros(1, 64, device=device, requires_grad=True)
        optimizer = torch.optim.Adam([z], lr=0.1)
        for _ in range(100):
            optimizer.zero_grad()
            (net(z) - target).pow(2).mean().backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if no optimizer holds the new tensor, but an optimizer of the old one keeps
    stepping.

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): "constructing it"
    - [FullyShardedDataParallel](https://docs.pytorch.org/docs/stable/fsdp.html): "must be initialized after"
    """

    code = "TL341"
    category = Category.CORRECTNESS
    triggers = (
        triggers.STEP,
        (b".to(", b".cuda(", b".half(", b"clamp", b"detach", b"clone", b"fsdp", b"peft", b"__init__"),
    )

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[provenance.Rebound]:
        if not self.model.is_test:
            yield from self.model.provenance.rebounds.all()

    def report_Rebound(self, found: provenance.Rebound) -> None:
        place = self.model.tree.code(found.place)
        what = "gets new parameters" if found.is_network else "is replaced by a new tensor"
        self.report(
            site_of(found.statement),
            f"`{place}` {what} here, but the optimizer holds the old ones: the new ones never learn"
            if found.is_network
            else f"`{place}` {what} here, but the optimizer holds the old one: it updates a tensor that is unused",
            related=[(site_of(found.optimizer), "the optimizer is created here")],
            help="create the optimizer after it"
            if found.is_network
            else "change `data` in place, or replace the tensor before creating the optimizer",
        )
