"""Rows as an outline: what each stands in, which are worth showing, and how far they are indented."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from torchlint.model.events import Branch, Call, Clear, Compute, Exit, Fresh, Inlined, Loop, MayClear, Try
from torchlint.trace.document import Arm, Row

STRUCTURE = frozenset({Loop, Branch, Arm, Try, Inlined, Exit})
"""The kinds of rows that are no events."""
_REPEATED = (Loop, Inlined)
_WITH_ARMS = (Branch, Try)
_MAKING = (Fresh, Call, Compute)
"""The kinds of rows that have made their value."""


def for_people(rows: Iterable[Row]) -> list[Row]:
    """The rows with one for a call that may clear, not two, and without what happens to optimizers not made yet."""
    joined = _join_calls(rows)
    made = {row.facts["value"]: index for index, row in reversed([*enumerate(joined)]) if row.kind in _MAKING}
    return [_without_unmade(row, index, made) for index, row in enumerate(joined)]


def _join_calls(rows: Iterable[Row]) -> list[Row]:
    """That a call may clear stands right after the call itself; it becomes a fact of the call."""
    joined: list[Row] = []
    for row in rows:
        if row.kind is MayClear and joined and (joined[-1].kind, joined[-1].span) == (Call, row.span):
            clears = {"clears": row.facts["clears"]} if "clears" in row.facts else {}
            joined[-1] = replace(joined[-1], facts={**joined[-1].facts, **clears})
        else:
            joined.append(row)
    return joined


def _without_unmade(row: Row, index: int, made: Mapping[str, int]) -> Row:
    """The row at this index, given the indices at which values are made."""
    if "clears" not in row.facts or row.kind in (Clear, Fresh):
        return row
    clears = {value: answer for value, answer in row.facts["clears"].items() if made.get(value, -1) < index}
    facts = {name: fact for name, fact in row.facts.items() if name != "clears"}
    return replace(row, facts={**facts, "clears": clears} if clears else facts)


class Outline:
    """The rows of a function; only the selected ones and their surroundings are shown."""

    def __init__(
        self, rows: Sequence[Row], is_wanted: Callable[[Row], bool], is_continued: Callable[[Row], bool]
    ) -> None:
        """`is_continued` tells whether a branch stands where the arm that it is in does: an `elif`."""
        self.rows = rows
        self.around: list[int] = []
        """The index of the row that each row stands in; -1 for none."""
        self.indents: list[int] = []
        """How many loops, branches and calls each row stands in."""
        self._place(is_continued)
        self._busy = self._with_surroundings(index for index, row in enumerate(rows) if is_wanted(row))

    def shown(self) -> Iterator[tuple[int, Row]]:
        """The index and the row of what is shown, in order."""
        return ((index, row) for index, row in enumerate(self.rows) if index in self._shown)

    def first_in(self, index: int) -> Row | None:
        """The first row that is shown in another."""
        for inner in range(index + 1, len(self.rows)):
            if self.rows[inner].depth <= self.rows[index].depth:
                break
            if inner in self._shown:
                return self.rows[inner]
        return None

    def _place(self, is_continued: Callable[[Row], bool]) -> None:
        open_rows: list[int] = []
        for row in self.rows:
            del open_rows[row.depth :]
            above = open_rows[-1] if open_rows else -1
            indent = 0 if above < 0 else self.indents[above] + (self.rows[above].kind not in _WITH_ARMS)
            self.indents.append(indent - is_continued(row))
            self.around.append(above)
            open_rows.append(len(self.around) - 1)

    @cached_property
    def _shown(self) -> set[int]:
        """The requested rows, and exits that change the next step of a loop with such rows."""
        exits = (index for index, row in enumerate(self.rows) if row.kind is Exit and self._leaves_a_loop(index))
        return self._busy | self._with_surroundings(exits)

    def _leaves_a_loop(self, index: int) -> bool:
        repeated = [above for above in self._above(index) if self.rows[above].kind in _REPEATED]
        return bool(repeated) and repeated[0] in self._busy and self.rows[repeated[0]].kind is Loop

    def _above(self, index: int) -> Iterator[int]:
        while (index := self.around[index]) >= 0:
            yield index

    def _with_surroundings(self, indices: Iterable[int]) -> set[int]:
        """These rows, and all that they stand in."""
        found: set[int] = set()
        for index in indices:
            while index >= 0 and index not in found:
                found.add(index)
                index = self.around[index]
        return found
