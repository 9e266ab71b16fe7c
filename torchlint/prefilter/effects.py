"""What calling something does with what it is handed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from torchlint.prefilter.values import Maybe, Value, present

Positions = frozenset[int | str]
"""Arguments of a call: indices, the object not counted, and keywords."""
NONE: Positions = frozenset()
ALL: Positions = frozenset({"*"})
FIRST: Positions = frozenset({0, "input"})


class Arguments:
    """What a call hands over."""

    __slots__ = ("keywords", "positional", "shifted")

    def __init__(self, positional: list[Maybe], keywords: dict[str, Maybe], *, shifted: bool = False) -> None:
        """`shifted`: positions say nothing, since there is a `*`, or the object is an argument."""
        self.positional = positional
        self.keywords = keywords
        self.shifted = shifted

    def all(self) -> list[Maybe]:
        return [*self.positional, *self.keywords.values()]

    def values(self) -> list[Value]:
        return list(present(self.all()))

    def at(self, positions: Positions) -> Iterator[Value]:
        """The arguments at some positions."""
        everything = self.shifted or "*" in positions
        for place, value in self._places() if positions else ():
            if value is not None and (everything or place in positions or place == "**"):
                yield value

    def where(self, holds: Callable[[Value], bool]) -> Positions:
        """The positions of arguments for which something holds."""
        found: Positions = frozenset(place for place, value in self._places() if value is not None and holds(value))
        return ALL if found and (self.shifted or "**" in found) else found

    def _places(self) -> Iterator[tuple[int | str, Maybe]]:
        yield from enumerate(self.positional)
        yield from self.keywords.items()


@dataclass(frozen=True)
class Effect:
    """What calling a function or module does; of what is not known nothing is assumed, as the model assumes nothing."""

    saves: Positions = NONE
    changes: Positions = NONE
    keeps_result: bool = False
    tracks: bool = False
    """Whether its result has a graph even if what it is handed has none."""
    leaf: bool = False
    """Whether its result is a leaf that requires grad."""
    attributes: frozenset[str] = frozenset()
    """Which attributes of `self` it changes in place."""
    parts: Positions = NONE
    """Of which arguments it changes attributes."""
    keeps: Positions = NONE
    """Which arguments it leaves in attributes of `self`."""
    keeps_saved: bool = False
    """Whether it leaves something there that is saved."""

    def __or__(self, other: Effect) -> Effect:
        return Effect(
            self.saves | other.saves,
            self.changes | other.changes,
            self.keeps_result or other.keeps_result,
            self.tracks or other.tracks,
            self.leaf or other.leaf,
            self.attributes | other.attributes,
            self.parts | other.parts,
            self.keeps | other.keeps,
            self.keeps_saved or other.keeps_saved,
        )


class Surroundings(Protocol):
    """What a function has around it."""

    def defines(self, name: str) -> bool:
        """Whether the file has a function or method of a name."""

    def is_class(self, name: str) -> bool:
        """Whether the file has a class of a name."""

    @property
    def changes_attributes(self) -> bool:
        """Whether a method of the file is known to change in place what `self` holds."""

    def is_module(self, name: str) -> bool:
        """Whether a class of the file is one of modules, by what it inherits from."""

    def bases(self, owner: str) -> frozenset[str]:
        """The classes of the file that a class inherits from."""

    def effect(self, name: str, classes: frozenset[str] | None = None) -> Effect:
        """What calling a function or method of the file does, of these classes only if there are any."""

    def made(self, name: str, owner: str) -> tuple[str, ...]:
        """The names of what is called where a name or attribute is bound: `Conv2d` for `self.conv`.

        `owner`: the class whose objects keep it, if the name begins with `self.`.
        """

    def module(self, name: str, owner: str, *, itself: bool) -> Effect:
        """What calling what is kept under a name does: a module, or with `itself` False one that it holds."""

    def of_made(self, made: Iterable[str]) -> Effect:
        """What calling an object of one of some classes does, or one of some functions."""

    def unaliased(self, name: str) -> str:
        """The name by which the file imports something, before `as`."""

    def may_keep_tensor(self, attribute: str) -> bool:
        """Whether an attribute, `self.scale`, may be a tensor."""

    def is_kept(self, name: str) -> bool:
        """Whether the file binds an attribute of a name to something."""

    def is_attribute(self, name: str) -> bool:
        """Whether objects hold something of a name, rather than inherit a method."""

    def is_imported_by_module(self, name: str) -> bool:
        """Whether the module imports a name, so that it is what it is everywhere."""

    def is_imported(self, name: str) -> bool:
        """Whether a name is one that the file imports."""

    def is_used_as_module(self, name: str) -> bool:
        """Whether the file calls methods of modules on something of a name."""

    def is_parameter(self, name: str) -> bool:
        """Whether a name or attribute is one that the file binds to parameters."""

    def handed(self, name: str) -> Positions:
        """At which positions something hands tensors with graphs, or modules, to a function of a name."""

    @property
    def goes_backward(self) -> bool:
        """Whether a backward pass may show that anything that is called has a graph."""
