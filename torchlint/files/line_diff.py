"""Which lines two texts share: a patience diff, whose time does not depend on what the lines are."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

_MAX_DEPTH = 40
_SMALL = 10_000
"""Pairs of lines that are compared one by one, where no line stands only once in both texts."""
_CONTEXT = 3

Opcode = tuple[str, int, int, int, int]
"""As those of `difflib`: "equal" or "replace", from where to where in the old text and in the new one."""
_Region = tuple[int, int, int, int]


def opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """How the new lines come of the old ones. Long stretches without any unique line are replaced as a whole."""
    found: list[Opcode] = []
    end_old = end_new = 0
    for start_old, start_new, length in _blocks(old, new):
        if start_old > end_old or start_new > end_new:
            found.append(("replace", end_old, start_old, end_new, start_new))
        end_old, end_new = start_old + length, start_new + length
        if length:
            found.append(("equal", start_old, end_old, start_new, end_new))
    return found


def unified(old: Sequence[str], new: Sequence[str], path: str) -> Iterator[str]:
    """The lines of a unified diff, without newlines; none if nothing differs."""
    for number, group in enumerate(_Matcher(opcodes(old, new)).get_grouped_opcodes(_CONTEXT)):
        if not number:
            yield from (f"--- {path}", f"+++ {path}")
        (_, first_old, _, first_new, _), (_, _, last_old, _, last_new) = group[0], group[-1]
        yield f"@@ -{_range(first_old, last_old)} +{_range(first_new, last_new)} @@"
        for tag, start_old, end_old, start_new, end_new in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[start_old:end_old])
            else:
                yield from (f"-{line}" for line in old[start_old:end_old])
                yield from (f"+{line}" for line in new[start_new:end_new])


class _Matcher(SequenceMatcher[str]):
    """Groups opcodes that it is given."""

    def __init__(self, opcodes: list[Opcode]) -> None:
        super().__init__()
        self._opcodes = opcodes

    def get_opcodes(self) -> list[Any]:
        return self._opcodes


def _range(start: int, end: int) -> str:
    """Lines from 1, as a diff names them; of none it is the line before."""
    if end - start == 1:
        return str(end)
    return f"{start + (end > start)},{end - start}"


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal lines, in order, and an empty one at the end."""
    start_old = start_new = length = 0
    for i, j in _pairs(old, new, (0, len(old), 0, len(new)), _MAX_DEPTH):
        if (i, j) != (start_old + length, start_new + length):
            if length:
                yield start_old, start_new, length
            start_old, start_new, length = i, j, 0
        length += 1
    if length:
        yield start_old, start_new, length
    yield len(old), len(new), 0


def _pairs(old: Sequence[str], new: Sequence[str], region: _Region, depth: int) -> Iterator[tuple[int, int]]:
    """Places of equal lines in a region, in order."""
    i, last_i, j, last_j = region
    while i < last_i and j < last_j and old[i] == new[j]:
        yield i, j
        i, j = i + 1, j + 1
    tail = 0
    while i < last_i - tail and j < last_j - tail and old[last_i - tail - 1] == new[last_j - tail - 1]:
        tail += 1
    last_i, last_j = last_i - tail, last_j - tail
    if i < last_i and j < last_j:
        yield from _between(old, new, (i, last_i, j, last_j), depth)
    yield from ((last_i + step, last_j + step) for step in range(tail))


def _between(old: Sequence[str], new: Sequence[str], region: _Region, depth: int) -> Iterator[tuple[int, int]]:
    """Places of equal lines in a region whose first and last lines differ."""
    i, last_i, j, last_j = region
    anchors = _anchors(old, new, region) if depth else []
    if anchors:
        for anchor_i, anchor_j in anchors:
            yield from _pairs(old, new, (i, anchor_i, j, anchor_j), depth - 1)
            yield anchor_i, anchor_j
            i, j = anchor_i + 1, anchor_j + 1
        yield from _pairs(old, new, (i, last_i, j, last_j), depth - 1)
    elif (last_i - i) * (last_j - j) <= _SMALL:
        for start_i, start_j, length in SequenceMatcher(
            None, old[i:last_i], new[j:last_j], False
        ).get_matching_blocks():
            yield from ((i + start_i + step, j + start_j + step) for step in range(length))


def _anchors(old: Sequence[str], new: Sequence[str], region: _Region) -> list[tuple[int, int]]:
    """Places of lines that stand once in each of the two texts: as many as are in the same order in both."""
    i, last_i, j, last_j = region
    old_counts, new_counts = Counter(old[i:last_i]), Counter(new[j:last_j])
    places = {new[place]: place for place in range(j, last_j) if new_counts[new[place]] == 1}
    once = [place for place in range(i, last_i) if old_counts[old[place]] == 1 and old[place] in places]
    return _longest_rising([(place, places[old[place]]) for place in once])


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many pairs as possible whose second numbers rise, as their first ones do."""
    ends: list[int] = []
    """The smallest second number with which a row of each length ends, and by length the pair that it is of."""
    numbers: list[int] = []
    before: list[int] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        ends[length : length + 1], numbers[length : length + 1] = [second], [number]
        before.append(numbers[length - 1] if length else -1)
    row = []
    number = numbers[-1] if numbers else -1
    while number >= 0:
        row.append(pairs[number])
        number = before[number]
    return row[::-1]
