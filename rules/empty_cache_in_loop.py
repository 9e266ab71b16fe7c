"""Cache emptying in every iteration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Rule, Safety, edits, triage

if TYPE_CHECKING:
    from torchlint.model.upkeep import CacheEmptied
    from torchlint.pythontree import Site


class EmptyCacheInLoop(Rule):
    """The CUDA cache is emptied in every iteration of a loop.

    ## What it does
    Finds `torch.cuda.empty_cache()` (also of other backends) in every iteration of a loop that trains or infers,
    directly or in a function that is called there.
    Nothing is said of a test (`test_...` in a file of tests), which may want the same memory each time.

    ## Why is this bad?
    It hands cached blocks back to the driver, which waits for the GPU, and the next iteration has to allocate
    them again: each iteration gets slower, and no memory that PyTorch itself could not have reused is gained.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix deletes the call, with an `if` that holds nothing else. It is safe: no value changes. In a function that
    the loop calls it is unsafe, since others may call that function too.

    ## What verify shows
    `torchlint verify` counts the calls a step. On a GPU it confirms them by the bytes that they release and
    their share of the time; on a CPU it says that it cannot tell. Rare calls refute it.

    ## References
    - [torch.cuda.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    """

    code = "TL401"
    category = Category.PERFORMANCE
    triggers = ((b"empty_cache",),)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return triage.may_empty_cache_in_loop(data)

    def ask(self) -> Iterable[CacheEmptied]:
        return self.model.upkeep.caches_emptied()

    def report_CacheEmptied(self, emptied: CacheEmptied) -> None:
        related = [(emptied.loop.site, "on every iteration of this loop")] if emptied.loop is not None else []
        self.report(
            emptied.site,
            "the cache is emptied in every iteration: each one waits for the GPU and allocates its memory anew",
            related=related,
            help="delete the call; PyTorch reuses its cached memory",
            fix=self._fix(emptied.site, shared=bool(emptied.event.calls)),
        )

    def _fix(self, site: Site, *, shared: bool) -> edits.Change | None:
        call = self.nodes.at(site) if self.nodes is not None else None
        if self.nodes is None or call is None or not self.nodes.tree.stands_alone(call):
            return None
        return edits.Change("delete the call", [edits.Delete(call)], Safety.UNSAFE if shared else Safety.SAFE)
