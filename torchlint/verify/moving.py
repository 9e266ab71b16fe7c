"""The place of a finding after an edit of its file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Position, Span

_ALIKE = 0.5
"""The minimum similarity of a replaced line with its new version."""


@dataclass(frozen=True)
class Move:
    """A map from places in one text to places in its edited version."""

    before: SourceFile
    after: SourceFile

    def finding(self, finding: Finding) -> Finding | None:
        """The finding in the other text; None if its first line is gone."""
        span = self._span(finding.span)
        if span is None:
            return None
        related = [(item, self._span(item.span)) for item in finding.related]
        kept = tuple(item._replace(span=moved) for item, moved in related if moved is not None)
        return replace(finding, path=self.after.path, span=span, related=kept)

    def _span(self, span: Span) -> Span | None:
        start = self._position(span.start)
        if start is None:
            return None
        return Span(start, max(start, self._position(span.end) or start))

    def _position(self, place: Position) -> Position | None:
        number = self._lines.get(place.line)
        if number is None:
            return None
        before, after = self.before.line(place.line), self.after.line(number)
        return Position(number, _column(before, after, place.column))

    @cached_property
    def _lines(self) -> dict[int, int]:
        """The new numbers of lines that still exist; their indentation does not matter."""
        before, after = ([line.strip() for line in source.lines] for source in (self.before, self.after))
        lines: dict[int, int] = {}
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        for kind, start, end, new_start, new_end in matcher.get_opcodes():
            if kind == "equal":
                lines |= {start + offset + 1: new_start + offset + 1 for offset in range(end - start)}
            elif kind == "replace":
                for number in range(start, end):
                    place = _most_alike(before[number], after[new_start:new_end])
                    lines |= {} if place is None else {number + 1: new_start + place + 1}
        return lines


def _most_alike(line: str, others: Sequence[str]) -> int | None:
    ratios = [difflib.SequenceMatcher(None, line, other).ratio() for other in others]
    best = max(range(len(ratios)), key=ratios.__getitem__)
    return best if ratios[best] >= _ALIKE else None


def _column(before: str, after: str, column: int) -> int:
    """A column of a line after an edit in it, counted from the end that the edit did not change."""
    start = _shared(before, after)
    if column < start:
        return column
    end = _shared(before[::-1], after[::-1])
    if column >= len(before) - end:
        return column + len(after) - len(before)
    return start


def _shared(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
