"""Loaders that give each distributed process the whole dataset in its own order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_WRAPPER = re.compile(r"torch\..*\.(DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|fully_shard)$")
_SHARDING = re.compile(
    r"(?i)sampler|prepare|lightning|shard\b|shards|sharding|split_dataset_by_node|webdataset|num_replicas|get_world_size|"
    r"\[rank\s*:|accelerat|iterable|hvd|horovod|indices|Subset"
)
"""Words in programs that may give each process its own part of the data."""


class Unsharded(NamedTuple):
    """The loader at `loader` shuffles the whole dataset, and the program wraps its model at `wrapper`."""

    loader: Site
    wrapper: Site


class UnshardedLoader(Rule):
    """Each distributed process iterates over the whole dataset.

    ## What it does
    Finds a loader with `shuffle=True` and no sampler that a training loop of the same function iterates over. The
    function wraps its model in DistributedDataParallel or FSDP, and nothing in the file mentions sharding. This rule is
    a preview because the caller may already give each process its own part of the data.

    ## Why is this bad?
    With N processes, an epoch takes as long as on one GPU, and each sample counts N times. The learning rate schedule
    and the number of epochs no longer mean what they say.

    ## Example
    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    def train(model, dataset, step):
        ddp = DistributedDataParallel(model)
        loader = DataLoader(dataset, batch_size=32, shuffle=True)
        for batch in loader:
            step(ddp, batch)
    ```

    Use instead:
    ```python
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler

    def train(model, dataset, step):
        ddp = DistributedDataParallel(model)
        sampler = DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=32, sampler=sampler)
        for epoch in range(10):
            sampler.set_epoch(epoch)
            for batch in loader:
                step(ddp, batch)
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if all ranks got the same batches from the loader.

    ## References
    - [DistributedSampler](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler)
    """

    code = "TL614"
    category = Category.SUSPICIOUS
    preview = True
    triggers = (
        (b"DistributedDataParallel", b"DDP", b"FSDP", b"FullyShardedDataParallel", b"fully_shard"),
        (b"DataLoader",),
    )

    def ask(self) -> Iterator[Unsharded]:
        if self.model.is_test or _SHARDING.search(self.model.tree.source.text):
            return
        known = self.model.definitions
        calls = list(self.model.tree.of_type(ast.Call))
        wrappers = [call for call in calls if _WRAPPER.match(names.imported(call.func, known))]
        for call in calls if wrappers else ():
            given = {item.arg: item.value for item in call.keywords}
            shuffle = given.get("shuffle")
            if shuffle is None or not python_ast.is_literal(shuffle, True) or None in given:
                continue
            if names.imported(call.func, known) not in datasets.LOADERS:
                continue
            wrapper = next((item for item in wrappers if self._belongs(call, item)), None)
            if wrapper is not None:
                yield Unsharded(python_ast.site_of(call), python_ast.site_of(wrapper))

    def _belongs(self, loader: ast.Call, wrapper: ast.Call) -> bool:
        """Whether one function wraps the model and makes the loader, itself or through a function that it calls."""
        around = self.model.definitions.function_around
        maker, user = around(loader), around(wrapper)
        if maker is user:
            return True
        calls = (item for item in names.own_nodes(user.node) if isinstance(item, ast.Call)) if user is not None else ()
        return maker is not None and any(names.function(item.func, self.model.definitions) is maker for item in calls)

    def report_Unsharded(self, found: Unsharded) -> None:
        self.report(
            found.loader,
            "each process iterates over the whole dataset: nothing gives it its own part",
            related=[(found.wrapper, "the model is wrapped here")],
            help="use a `DistributedSampler`, and call its `set_epoch` in each epoch",
        )
