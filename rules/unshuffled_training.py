"""Training loaders that give the same batches in the same order in each epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, utilities, values
from torchlint.model.queries import held_out
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_ORDERED = LazyPattern(r"(?i)seq|series|window|time|stream|iter|text|corpus|token|video|shard|pack|graph|sort")
"""Names of data whose order may matter."""
_FULL = LazyPattern(r"(?i)full")
"""Names of loaders and datasets that give all samples in one batch; the whole of a split may have such a name."""


class SameBatches(NamedTuple):
    """The loader at `site` does not shuffle, and `epochs` trains on its batches repeatedly.

    `other` is the loader of validation or test data that shuffles instead, if there is one.
    """

    site: Site
    epochs: Site
    name: str
    other: Site | None
    is_sure: bool
    """Whether the samples have no other order, and nothing in the code asks for this one."""


class UnshuffledTraining(Rule):
    """A training loader does not shuffle: each epoch has the same batches.

    ## What it does
    Finds loaders without `shuffle=True` and without a sampler, if a loop over epochs trains on their batches. By
    default, torchlint reports them in two cases:

    - the same function shuffles the validation or test data instead;
    - nothing sets `shuffle`, and the order has no reason that torchlint knows: the index alone decides which sample the
      dataset gives, names do not speak of sequences or time, and no loop iterates over several loaders together.

    Reported only with `--preview`: loaders with `shuffle=False`, and loaders of unknown datasets.

    ## Why is this bad?
    Each epoch consists of the same batches in the same order, and files are often sorted by class or length. Gradients
    of neighboring batches are then alike, and batch statistics fit the batch instead of the data. The model generalizes
    worse than with `shuffle=True`.

    ## Example
    ```python
    from torch.utils.data import DataLoader, random_split

    def train(model, dataset, optimizer, criterion, epochs):
        train_set, val_set = random_split(dataset, [0.9, 0.1])
        train_loader = DataLoader(train_set, batch_size=32)
        for epoch in range(epochs):
            for x, y in train_loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader, random_split

    def train(model, dataset, optimizer, criterion, epochs):
        train_set, val_set = random_split(dataset, [0.9, 0.1])
        train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
        for epoch in range(epochs):
            for x, y in train_loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
    ```

    ## References
    - [torch.utils.data.DataLoader](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader)
    """

    code = "TL643"
    category = Category.SUSPICIOUS
    triggers = ((b"DataLoader",), (b"train", b"Train"))
    calls = frozenset({"DataLoader"})

    def ask(self) -> Iterator[SameBatches]:
        observed = self.model.program.observations
        for loader in [] if self.model.is_test else observed.loaders:
            name = loader.label
            dataset, own = loader.part("dataset"), list(self._own_names(loader))
            names = [*own, *self._names(loader)]
            if loader.site is None or not any(map(held_out.is_named_training, names)):
                continue
            if any(_ORDERED.search(item) or held_out.is_named_held_out(item) for item in names):
                continue
            if any(map(_FULL.search, own)):
                continue
            if self.model.datasets.shuffles(loader) is values.Answer.NO and not self._is_whole(loader):
                order = self.model.datasets.is_indexed(dataset) if dataset is not None else values.Answer.UNKNOWN
                epochs = self._epochs(loader) if order is not values.Answer.NO else None
                if epochs is not None and not self._is_paired(loader):
                    is_sure = order is values.Answer.YES and loader.part("shuffle") is None and self._trains(loader)
                    yield SameBatches(loader.site, epochs.site, name, self._swapped(loader), is_sure)

    def _own_names(self, loader: utilities.DataLoader) -> Iterator[str]:
        """The names of a loader and of the dataset that it gets."""
        yield loader.label
        dataset = loader.part("dataset")
        if dataset is not None:
            yield values.resolved(dataset).label
        call = self.model.tree.node(loader.site) if loader.site is not None else None
        given = [item.value for item in call.keywords if item.arg == "dataset"] if isinstance(call, ast.Call) else []
        yield from map(python_ast.dotted, [*given, *call.args[:1]] if isinstance(call, ast.Call) else ())

    def _names(self, loader: utilities.DataLoader) -> Iterator[str]:
        """The names of a loader's dataset and of the whole behind it, with their classes and data."""
        dataset = loader.part("dataset")
        for item in [values.resolved(dataset), self.model.datasets.whole(dataset)] if dataset is not None else ():
            yield item.label
            if isinstance(item, values.Instance):
                yield item.info.name
            yield from (values.resolved(part).label for part in item.parents)

    def _swapped(self, loader: utilities.DataLoader) -> Site | None:
        """A loader of held-out data that the function around creates and shuffles."""
        around = self._function(loader)
        for other in self.model.program.observations.loaders:
            if other.site is not None and held_out.is_named_held_out(other.label) and self._function(other) is around:
                if self.model.datasets.shuffles(other) is values.Answer.YES and other.part("sampler") is None:
                    return other.site
        return None

    def _function(self, loader: utilities.DataLoader) -> object:
        return self.model.tree.function_around(self.model.tree.node(loader.site)) if loader.site is not None else None

    def _is_whole(self, loader: utilities.DataLoader) -> bool:
        """Whether a loader gives no batches of several samples in a fixed order."""
        if self.model.datasets.is_one_batch(loader):
            return True
        size = loader.part("batch_size")
        known = values.resolved(size) if size is not None else None
        return known is None or (isinstance(known, values.Plain) and known.is_literal and known.constant in (1, None))

    def _epochs(self, loader: utilities.DataLoader) -> events.Loop | None:
        """The loop over epochs that trains on a loader's batches."""
        for around in self.model.program.observations.passes.get(loader, []):
            outer = [loop for loop in around if loop not in loader.loops and not loop.implicit]
            for trace in self.model.program.traces:
                for backward in trace.of(events.Backward):
                    if (
                        outer
                        and outer[0] in backward.loops
                        and len(backward.loops) > backward.loops.index(outer[0]) + 1
                    ):
                        return outer[0]
        return None

    def _loops_over(self, loader: utilities.DataLoader) -> Iterator[tuple[events.Loop, list[values.Value]]]:
        """The loops around the backward passes that iterate over a loader, each with all that it draws from."""
        loops = {
            loop for trace in self.model.program.traces for item in trace.of(events.Backward) for loop in item.loops
        }
        for loop in loops:
            drawn = [values.resolved(item) for item in values.drawn_from(loop.over)] if loop.over is not None else []
            if loader in drawn:
                yield loop, drawn

    def _trains(self, loader: utilities.DataLoader) -> bool:
        """Whether a loop over a loader goes backward."""
        return any(True for _ in self._loops_over(loader))

    def _is_paired(self, loader: utilities.DataLoader) -> bool:
        """Whether a loop iterates over a loader and something else together: `zip(images, features)`."""
        return any(
            len({item for item in drawn if not isinstance(item, values.Generator)}) > 1
            for _, drawn in self._loops_over(loader)
        )

    def report_SameBatches(self, found: SameBatches) -> None:
        self.report(
            found.site,
            f"`{found.name}` does not shuffle: each epoch trains on the same batches in the same order",
            related=[
                (found.epochs, "the epochs are here"),
                *([(found.other, "this shuffles the held-out data instead")] if found.other is not None else []),
            ],
            help="pass `shuffle=True`",
            confidence=Confidence.MEDIUM if found.other is not None or found.is_sure else Confidence.LOW,
        )
