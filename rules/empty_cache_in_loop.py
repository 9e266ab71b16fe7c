"""Cache emptying in every iteration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Rule, Safety, edits, prefilter

if TYPE_CHECKING:
    from torchlint.model.queries.cache_emptying import CacheEmptied
    from torchlint.syntax.python_ast import Site


class EmptyCacheInLoop(Rule):
    """The CUDA cache is emptied in every iteration of a loop.

    ## What it does
    Finds `torch.cuda.empty_cache()` (also of other backends) at every step of a training or an evaluation, directly
    or in a function that is called there. An iteration is a step if it trains, or if a model runs on what the loop
    yields.
    Nothing is said where an iteration is a job of its own: an epoch, a fold, an episode with its update, a request,
    a file, a text that is generated, a model that takes its turn, a probe of how large a batch may be. Nor is it of a
    function that measures memory, or of a test (`test_...` in a file of tests), which may want the same memory each
    time.

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
    The fix deletes the call, with an `if` that holds nothing else. It is safe: no value changes. It is unsafe where
    something in the loop reads memory counters, which show other figures then, and in a function that is called in
    other places too, which may want it.

    ## What verify shows
    `torchlint verify` counts the calls a step. On a GPU it confirms them by the bytes that they release and
    their share of the time; on a CPU it says that it cannot tell. Rare calls refute it.

    ## References
    - [torch.cuda.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    """

    code = "TL401"
    category = Category.PERFORMANCE
    triggers = (prefilter.EMPTY_CACHE,)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return prefilter.may_empty_cache_in_loop(data)

    def ask(self) -> Iterable[CacheEmptied]:
        return self.model.cache_emptying.at_every_step()

    def report_CacheEmptied(self, emptied: CacheEmptied) -> None:
        often = "at every optimizer step" if emptied.per_update else "in every iteration"
        where = "at every optimizer step of this loop" if emptied.per_update else "on every iteration of this loop"
        self.report(
            emptied.site,
            f"the cache is emptied {often}: each one waits for the GPU and allocates its memory anew",
            related=[(emptied.loop.site, where)] if emptied.loop is not None else [],
            help="delete the call; PyTorch reuses its cached memory",
            fix=self._fix(emptied.site, safe=not (emptied.changes_figures or emptied.shared)),
        )

    def _fix(self, site: Site, *, safe: bool) -> edits.Change | None:
        call = self.nodes.at(site) if self.nodes is not None else None
        if self.nodes is None or call is None or not self.nodes.tree.stands_alone(call):
            return None
        return edits.Change("delete the call", [edits.Delete(call)], Safety.SAFE if safe else Safety.UNSAFE)
