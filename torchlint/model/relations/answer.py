"""A relation's answer in words, for `torchlint trace` and for the pages of the relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from torchlint.syntax.python_ast import Site
from torchlint.syntax.python_tree import PythonTree


class Answer(NamedTuple):
    """A relation's answer about the code at a site."""

    site: Site
    text: str


class Relation(Protocol):
    """A relation as `torchlint trace` uses it."""

    def answers(self) -> Iterator[Answer]:
        """The answers about the file, in the order of the program."""


def lines(tree: PythonTree, sites: Iterable[Site]) -> str:
    """The lines of sites in words: "line 3", "lines 3, 4 and 9"; for a notebook "line 3 of cell 2"."""
    starts = sorted(tree.span(site.here).start for site in sites)
    places = [tree.source.place(start) for start in starts]
    numbers = [f"{place.line}" if place.cell is None else f"{place.line} of cell {place.cell}" for place in places]
    *others, last = dict.fromkeys(numbers)
    return f"lines {', '.join(others)} and {last}" if others else f"line {last}"
