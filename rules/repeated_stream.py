"""Iterable datasets that each worker of a loader reads from the start to the end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.model.queries import default_numbers, written
from torchlint.syntax import python_ast

from . import _worker_streams as streams

if TYPE_CHECKING:
    from torchlint.model.utilities import DataLoader
    from torchlint.syntax.python_ast import Site

_BEFORE_WORKERS = 5


class Repeated(NamedTuple):
    """Each of `workers` workers of the loader at `loader` iterates over the whole dataset `name`."""

    loader: Site
    start: Site | None
    name: str
    workers: int


class RepeatedStream(Rule):
    """Each worker of a loader iterates over the whole `IterableDataset`.

    ## What it does
    Finds loaders with at least two workers, even if the number is only the default value of a parameter or a
    command-line option. Their dataset is an `IterableDataset` that the program defines. Its `__iter__` iterates over
    its data to the end and draws no random numbers, not even in the methods that it calls. No code in its file or in
    that of the loader uses the worker's ID or mentions sharding.

    ## Why is this bad?
    Each worker has its own copy of the dataset, and runs `__iter__` from the start. With two workers, each sample comes
    up twice in an epoch, and with eight workers, eight times. An evaluation counts samples several times.

    ## Example
    ```python
    from torch.utils.data import DataLoader, IterableDataset

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            with open(self.path) as file:
                yield from file

    loader = DataLoader(Lines("train.txt"), batch_size=32, num_workers=4)
    ```

    Use instead:
    ```python
    from itertools import islice

    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Lines(IterableDataset):
        def __init__(self, path):
            self.path = path

        def __iter__(self):
            info = get_worker_info()
            first, step = (info.id, info.num_workers) if info is not None else (0, 1)
            with open(self.path) as file:
                yield from islice(file, first, None, step)

    loader = DataLoader(Lines("train.txt"), batch_size=32, num_workers=4)
    ```

    ## References
    - [torch.utils.data.IterableDataset](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset)
    """

    code = "TL633"
    category = Category.CORRECTNESS
    triggers = ((b"DataLoader",), (b"num_workers",))
    calls = frozenset({"DataLoader"})

    def ask(self) -> Iterator[Repeated]:
        loaders = self.model.program.observations.loaders
        if self.model.is_test or not loaders or streams.PARTS.search(self.model.tree.source.text):
            return
        for loader in loaders:
            dataset = loader.part("dataset")
            dataset = values.resolved(dataset) if dataset is not None else None
            if isinstance(dataset, values.Instance) and streams.reads_all(dataset.info):
                workers = self._workers(loader)
                if workers >= 2 and loader.site is not None:
                    method = dataset.info.methods["__iter__"]
                    is_here = method.definitions is self.model.definitions
                    start = python_ast.site_of(method.node) if is_here else None
                    yield Repeated(loader.site, start, dataset.info.name, workers)

    def _workers(self, loader: DataLoader) -> int:
        """The number of workers that a call asks for; 0: it is not known, or a function for the workers is given."""
        call = self.model.tree.node(loader.site) if loader.site is not None else None
        if not isinstance(call, ast.Call) or any(item.arg in (None, "worker_init_fn") for item in call.keywords):
            return 0
        passed = loader.part("num_workers")
        passed = values.resolved(passed) if passed is not None else None
        if isinstance(passed, values.Plain) and passed.is_literal:
            return passed.constant if isinstance(passed.constant, int) else 0
        given = written.argument(call, _BEFORE_WORKERS, "num_workers")
        number = default_numbers.default_number(given, self.model.definitions) if given is not None else None
        return int(number) if number is not None else 0

    def report_Repeated(self, found: Repeated) -> None:
        self.report(
            found.loader,
            f"each of the {found.workers} workers reads all of `{found.name}`: "
            f"each sample comes up {found.workers} times",
            related=[(found.start, "each worker starts here")] if found.start is not None else (),
            help="let `__iter__` ask `get_worker_info()` which part of the data is the worker's",
        )
