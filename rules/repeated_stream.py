"""Iterable datasets that each worker of a loader reads from the start to the end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import default_numbers, names, seeded_orders
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo, FunctionInfo
    from torchlint.model.utilities import DataLoader
    from torchlint.syntax.python_ast import Site

_BASE = LazyPattern(r"^torch\.utils\.data\.(?:dataset\.)?IterableDataset$")
_PARTS = LazyPattern(
    r"(?i)worker_?(?:info|id|init)|rank\b|world_?size|shard|webdataset|\bwds\b|\bdatasets\b|datapipe|torchdata|litdata"
    r"|streaming|accelerat|lightning"
)
"""Words of programs that may give each worker its own part of the data."""
_ENDLESS = LazyPattern(r"(?i)\bwhile\b|cycle|count\(|queue|socket|\benv|replay|buffer")
"""Words of classes whose data may have no end."""
_RANDOM = LazyPattern(r"(?i)rand|shuffl|sampl|choice|permut|rng|generator")
"""Words of code that may give other data in each worker."""
_SOURCES = LazyPattern(r"Sampler\(|Random(State)?\(|Generator\(|default_rng\(")
"""Objects that give other data at each use."""


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
    its data to the end and draws no random numbers, not even in the methods that it calls, except for a shuffle with a
    generator whose seed is the same in each worker. No code in its file or in that of the loader uses the worker's ID
    or mentions sharding.

    ## Why is this bad?
    Each worker has its own copy of the dataset, and runs `__iter__` from the start. With two workers, each epoch
    contains each sample twice, and with eight workers, eight times. An evaluation counts samples several times.

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
        if self.model.is_test:
            return
        for loader in loaders:
            dataset = loader.part("dataset")
            dataset = values.resolved(dataset) if dataset is not None else None
            is_whole = isinstance(dataset, values.Instance) and _reads_all(dataset.info)
            if isinstance(dataset, values.Instance) and is_whole and not self._is_divided:
                workers = self._workers(loader)
                if workers >= 2 and loader.site is not None:
                    method = dataset.info.methods["__iter__"]
                    is_here = method.definitions is self.model.definitions
                    start = python_ast.site_of(method.node) if is_here else None
                    yield Repeated(loader.site, start, dataset.info.name, workers)

    @cached_property
    def _is_divided(self) -> bool:
        """Whether the file mentions a part of a stream."""
        return _PARTS.search(self.model.tree.source.text) is not None

    def _workers(self, loader: DataLoader) -> int:
        """The number of workers that a call asks for; 0: it is not known, or a function for the workers is given."""
        call = self.model.tree.node(loader.site) if loader.site is not None else None
        if not isinstance(call, ast.Call) or any(item.arg in (None, "worker_init_fn") for item in call.keywords):
            return 0
        return default_numbers.workers_of(loader, self.model.program)

    def report_Repeated(self, found: Repeated) -> None:
        self.report(
            found.loader,
            f"each of the {found.workers} workers reads all of `{found.name}`: "
            f"each epoch contains each sample {found.workers} times",
            related=[(found.start, "each worker starts here")] if found.start is not None else (),
            help="let `__iter__` ask `get_worker_info()` which part of the data is the worker's",
        )


def _reads_all(info: ClassInfo) -> bool:
    """Whether a class iterates over the same data in each worker."""
    method = info.methods.get("__iter__")
    bases = [item for item in info.ancestors() if item is not info]
    if method is None or len(bases) != 1 or not isinstance(bases[0], str) or not _BASE.search(bases[0]):
        return False
    tree = method.definitions.tree
    is_finite = not _ENDLESS.search(tree.code(info.node)) and not _PARTS.search(tree.source.text)
    run = _run_by(method)
    is_random = any(_RANDOM.search(seeded_orders.without_orders(item)) for item in run)
    is_same = not is_random and not _reads_source(info, run)
    returns = [item.value for item in names.own_nodes(method.node) if isinstance(item, ast.Return)]
    calls = [item for item in returns if isinstance(item, ast.Call)]
    made = [names.function(item.func, method.definitions) for item in calls]
    is_iterator = any(python_ast.called_name(item) == "iter" for item in calls) or (
        bool(made) and all(item is not None and item.is_generator for item in made)
    )
    return is_finite and is_same and not method.decorators and (method.is_generator or is_iterator)


def _run_by(method: FunctionInfo) -> list[FunctionInfo]:
    """A method, and the methods of its class that it calls, at any depth."""
    found = [method]
    for item in found:
        calls = (node for node in names.own_nodes(item.node) if isinstance(node, ast.Call))
        called = (names.function(node.func, item.definitions) for node in calls)
        found.extend(dict.fromkeys(other for other in called if other is not None and other not in found))
    return found


def _reads_source(info: ClassInfo, run: list[FunctionInfo]) -> bool:
    """Whether methods read an attribute that the class sets to an object which gives other data at each use."""
    nodes = [node for item in run for node in python_ast.walk(item.node) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in nodes}
    tree = run[0].definitions.tree
    stores = (node for node in python_ast.walk(info.node) if isinstance(node, ast.Attribute) and node.attr in read)
    written_ = [tree.statement(node) for node in stores if isinstance(node.ctx, ast.Store)]
    return any(_SOURCES.search(tree.code(item)) for item in written_ if item is not None)
