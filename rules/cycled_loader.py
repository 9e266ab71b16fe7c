"""Loaders in `itertools.cycle`, which repeats the batches of the first epoch."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint import Category, Confidence, Rule
from torchlint.model import utilities, values
from torchlint.model.relations import datasets
from torchlint.pytorch import naming


class CycledLoader(Rule):
    """`itertools.cycle` repeats the batches of the first epoch in the same order.

    ## What it does
    Finds `itertools.cycle` of a shuffling loader, where training draws from it without end. Reported only with
    `--preview`: a loader that may not shuffle, a variable that torchlint takes for a loader only because of its name,
    and a loop that ends when another loader has no more batches.

    ## Why is this bad?
    `cycle` iterates over the loader once and stores each batch. From the second epoch on, it repeats the stored
    batches. It never reshuffles and never applies new augmentations, so training overfits. All batches of the dataset
    also stay in memory.

    ## Example
    ```python
    import itertools
    from torch.utils.data import DataLoader

    def train(dataset, step):
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        batches = itertools.cycle(loader)
        for _ in range(100_000):
            step(next(batches))
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader

    def forever(loader):
        while True:
            yield from loader

    def train(dataset, step):
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        batches = forever(loader)
        for _ in range(100_000):
            step(next(batches))
    ```

    ## References
    - [itertools.cycle](https://docs.python.org/3/library/itertools.html#itertools.cycle): "saving a copy of each"
    """

    code = "TL607"
    category = Category.SUSPICIOUS
    triggers = ((b"cycle",), (b"itertools",))
    calls = frozenset({"cycle"})

    def ask(self) -> Iterator[datasets.Cycle]:
        for cycle in [] if self.model.is_test else self.model.datasets.cycles:
            is_loader = utilities.is_kind(cycle.loader, utilities.Kind.LOADER)
            if self.model.tree.own_node(cycle.site) is not None and not self.model.datasets.is_one_batch(cycle.loader):
                if is_loader or naming.LOADER.search(cycle.loader.label):
                    yield cycle

    def report_Cycle(self, cycle: datasets.Cycle) -> None:
        is_sure = cycle.shuffles is values.Answer.YES and cycle.wraps is values.Answer.YES
        label = cycle.loader.label
        name = f"`{label}`" if label[:1].islower() else "the loader"
        made = cycle.loader.site if isinstance(cycle.loader, utilities.DataLoader) else None
        self.report(
            cycle.site,
            f"`cycle` keeps all batches of {name} in memory and repeats them, without new shuffling or augmentation",
            related=[(made, "the loader is made here")] if made is not None else (),
            help="iterate over the loader again in each epoch: `while True: yield from loader`",
            confidence=Confidence.HIGH if is_sure else Confidence.LOW,
        )
