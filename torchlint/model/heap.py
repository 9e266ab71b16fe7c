"""The heap: the contents of containers at a point of the program, and the places that an iteration changes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from torchlint.model.value import Origin, Value


class Change(Enum):
    """The last change of a container's contents; the value is the word of `trace` for it."""

    PUT = "puts something into"
    EMPTIED = "empties"
    SET = "sets an entry of"
    TAKEN = "removes elements from"
    UNKNOWN = "may change"


class Contents(Value):
    """The contents of a container at a point of the program.

    It is never a value of the program. `parents` hold the contents before the change, and the value that the change
    puts in. The label of `SET` is a literal key, or empty. The label of `UNKNOWN` is the name of the call.
    """

    __slots__ = ("change", "old")

    def __init__(
        self,
        node: Origin,
        change: Change,
        parents: tuple[Value, ...] = (),
        label: str = "",
        old: Value | None = None,
    ) -> None:
        super().__init__(node, parents, label)
        self.change = change
        self.old = old
        """The value of the entry before `SET`, if it is known."""


AS_MADE = Contents(None, Change.EMPTIED)
"""The contents of a container without changes since its creation."""


class BackEdge(NamedTuple):
    """The places that an iteration of a loop changes, with their values at its beginning and end.

    A place that does not exist holds None.
    """

    names: Mapping[str, tuple[Value | None, Value | None]]
    attributes: Mapping[tuple[Value, str], tuple[Value | None, Value | None]]
    contents: Mapping[Value, tuple[Value, Value]]

    def may_set(self, owner: Value, name: str) -> bool:
        """Whether an iteration sets an attribute of this name, or has unknown effects on the object."""
        return owner in self.contents or any(attribute == name for _, attribute in self.attributes)
