"""What calling something does with what it is handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Effect:
    """What calling a function or module does; of what is not known nothing is assumed, as the model assumes nothing."""

    saves: bool = False
    keeps_result: bool = False
    changes: bool = False
    tracks: bool = False
    """Whether its result has a graph even if what it is handed has none."""
    attributes: frozenset[str] = frozenset()
    """Which attributes of `self` it changes in place."""

    def __or__(self, other: Effect) -> Effect:
        return Effect(
            self.saves or other.saves,
            self.keeps_result or other.keeps_result,
            self.changes or other.changes,
            self.tracks or other.tracks,
            self.attributes | other.attributes,
        )


class Surroundings(Protocol):
    """What a function has around it."""

    def effect(self, name: str) -> Effect:
        """What calling a name, or an attribute of that name, does."""

    def is_parameter(self, name: str) -> bool:
        """Whether a name or attribute is one by which parameters go."""

    def is_called(self, name: str) -> bool:
        """Whether something hands tensors with graphs to a function of a name."""

    @property
    def goes_backward(self) -> bool:
        """Whether a backward pass may show that anything that is called has a graph."""
