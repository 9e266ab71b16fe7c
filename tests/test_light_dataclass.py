"""A light dataclass does what one of the standard library does, but for keeping others from changing it."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from torchlint import light_dataclass

KINDS: tuple[Callable[..., Any], ...] = (dataclasses.dataclass, light_dataclass.dataclass)


def pair(**options: Any) -> list[type]:
    """The same class by the standard library, and by us."""

    def made(decorate: Callable[..., Any]) -> type:
        class Point:
            x: int
            y: tuple[int, ...] = ()
            note: str = field(default="", compare=False)
            hidden: list[int] = field(default_factory=list, repr=False, compare=False)

        return decorate(**options)(Point)  # type: ignore[no-any-return]

    return [made(decorate) for decorate in KINDS]


@pytest.mark.parametrize(
    "options", [{"frozen": True}, {}, {"eq": False}, {"repr": False}, {"frozen": True, "slots": True}]
)
def test_it_compares_hashes_and_shows_itself_alike(options: dict[str, Any]) -> None:
    for made in pair(**options):
        one, same, other = made(1, (2,), "a"), made(1, y=(2,), note="b"), made(2)
        assert (one == same, one == other, one == (1, (2,))) == ("eq" not in options, False, False)
        assert one != other and dataclasses.replace(other, x=1).x == 1
        assert [item.name for item in dataclasses.fields(made)] == ["x", "y", "note", "hidden"]
        assert dataclasses.astuple(other) == (2, (), "", [])
        if options.get("frozen"):
            assert hash(one) == hash(same) and len({one, same, other}) == 2
        else:
            assert (made.__hash__ is None) == ("eq" not in options)
    library, ours = pair(**options)
    if "repr" not in options:
        assert repr(ours(1, (2,), "a")) == repr(library(1, (2,), "a"))


@light_dataclass.dataclass(frozen=True)
class Own:
    """A dataclass with a comparison and a form of its own."""

    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other == self.x

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


@light_dataclass.dataclass(frozen=True)
class Empty:
    pass


@light_dataclass.dataclass(frozen=True, slots=True)
class Below:
    x: int


def test_what_a_class_defines_itself_stays() -> None:
    assert Own(3) == 3 and hash(Own(3)) == 7 and repr(Own(3)) == "own"


def test_a_class_without_fields() -> None:
    assert Empty() == Empty() and len({Empty(), Empty()}) == 1 and repr(Empty()) == "Empty()"


@pytest.mark.parametrize("item", [Own(3), Empty(), Below(3)], ids=repr)
def test_it_is_pickled(item: object) -> None:
    again = pickle.loads(pickle.dumps(item))
    assert type(again) is type(item) and repr(again) == repr(item) and hash(again) == hash(item)
