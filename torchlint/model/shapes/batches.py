"""Batches of a loader: the sizes of the dataset's tensors or samples, except the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.shapes.samples import sample_type
from torchlint.model.shapes.sizes import Known, Size, Symbol
from torchlint.model.shapes.tensor_type import ANY, TensorType
from torchlint.model.utilities import DataLoader
from torchlint.model.values import (
    CallResult,
    Element,
    External,
    Instance,
    Iteration,
    Plain,
    UnknownObject,
    Value,
    is_none,
    resolved,
)

if TYPE_CHECKING:
    from torchlint.model.program import Program
    from torchlint.model.shapes.scope import Scope

_DATASETS = frozenset({"torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset"})
_SUBSETS = frozenset({"torch.utils.data.random_split", "torch.utils.data.Subset"})
_OTHER_BATCHES = ("collate_fn", "batch_sampler")
_MAX_SUBSETS = 4


class BatchOf(NamedTuple):
    """The number of samples in a batch of a loader, as the source of a symbol."""

    loader: DataLoader


def batched_type(
    program: Program,
    value: Value,
    scope: Scope,
    type_of: Callable[[Value, Scope], TensorType],
    inside: Callable[[Instance], Scope],
) -> TensorType:
    """The type of a part of a batch; `inside` gives the arguments that created the dataset.

    It is known if the dataset consists of tensors, or is of a class of the program with known samples.
    """
    iteration = resolved(value.parents[0]) if isinstance(value, Element) and value.parents else None
    loader = resolved(iteration.parents[0]) if isinstance(iteration, Iteration) and iteration.parents else None
    if iteration is None or not isinstance(loader, DataLoader) or not _collates(loader):
        return ANY
    dataset, key = _dataset(loader), iteration.key_of(value)
    if isinstance(dataset, Instance):
        sample = sample_type(program, dataset.info, key, lambda item: type_of(item, inside(dataset)))
        samples = Size.symbol(Symbol(BatchOf(loader), 0))
        return ANY if sample.is_open else sample.with_sizes((samples, *sample.sizes))
    made = dataset.parents if dataset is not None else ()
    tensor = next((item for number, item in enumerate(made) if key == f"[{number}]"), None)
    type_ = type_of(tensor, scope) if tensor is not None else ANY
    if type_.is_open or not type_.sizes:
        return ANY.with_dtype(type_.dtype)
    return type_.with_sizes((Size.symbol(Symbol(BatchOf(loader), 0)), *type_.sizes[1:]))


def loader_of(size: Known) -> DataLoader | None:
    """The loader whose batches have this size."""
    symbols = list(size.symbols) if size is not None else []
    symbol = symbols[0] if len(symbols) == 1 else None
    source = symbol.source if isinstance(symbol, Symbol) and size == Size.symbol(symbol) else None
    return source.loader if isinstance(source, BatchOf) else None


def _collates(loader: DataLoader) -> bool:
    """Whether a loader stacks samples by the default collate function."""
    if any((given := loader.part(name)) is not None and not is_none(given) for name in _OTHER_BATCHES):
        return False
    count = loader.part("batch_size")
    number = resolved(count) if count is not None else None
    return number is not None and not (isinstance(number, Plain) and number.is_literal and number.constant in (None, 1))


def _dataset(loader: DataLoader) -> UnknownObject | Instance | None:
    """The `TensorDataset` of a loader, or an object of the program, or the dataset behind its subset."""
    dataset = loader.part("dataset")
    for _ in range(_MAX_SUBSETS):
        dataset = resolved(dataset) if dataset is not None else None
        if isinstance(dataset, Instance) or (isinstance(dataset, UnknownObject) and _name(dataset) in _DATASETS):
            return dataset
        is_part = isinstance(dataset, Element) or (
            isinstance(dataset, (CallResult, UnknownObject)) and _name(dataset) in _SUBSETS
        )
        if dataset is None or not is_part or not dataset.parents:
            return None
        dataset = dataset.parents[0]
    return None


def _name(made: CallResult | UnknownObject) -> str:
    """The qualified name of the callee."""
    callee = resolved(made.callee) if made.callee is not None else None
    return callee.name if isinstance(callee, External) else ""
