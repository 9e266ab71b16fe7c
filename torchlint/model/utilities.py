"""Participants in training besides modules and optimizers: scalers, schedulers, engines, loaders."""

from __future__ import annotations

from enum import Enum

from torchlint.model.values import External, Origin, Unknown, UnknownObject, Value


class Kind(Enum):
    """The kind of a participant in training besides modules and optimizers."""

    SCALER = "scaler"
    SCHEDULER = "scheduler"
    ENGINE = "engine"
    LOADER = "loader"
    DISTRIBUTION = "distribution"


class Utility(Unknown):
    """An object of a known kind without further known facts."""

    __slots__ = ("kind",)
    origin = "utility"

    def __init__(self, node: Origin, kind: Kind, parents: tuple[Value, ...] = (), label: str = "") -> None:
        super().__init__(node, parents, label or kind.value)
        self.kind = kind


class DataLoader(UnknownObject):
    """A `torch.utils.data.DataLoader`, with its arguments as parts; `callee` is its class."""

    __slots__ = ()
    kind = Kind.LOADER


class RecordClass(External):
    """A class created by `collections.namedtuple`, with the names of its fields."""

    __slots__ = ("fields",)

    def __init__(self, node: Origin, fields: tuple[str, ...]) -> None:
        super().__init__(node, "collections.namedtuple()")
        self.fields = fields


def is_kind(value: Value | None, *kinds: Kind) -> bool:
    """Whether a value is surely a scaler, a scheduler, ..."""
    return isinstance(value, (Utility, DataLoader)) and value.kind in kinds


def is_utility(value: Value) -> bool:
    """Whether a value is of any known kind."""
    return isinstance(value, (Utility, DataLoader))
