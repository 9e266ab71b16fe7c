"""Fixes whose result would not be valid Python: found before anybody is offered them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Finding, Fix, Position


def with_valid_fixes(source: SourceFile, findings: list[Finding]) -> list[Finding]:
    """The findings of a file, without fixes that break it."""
    fixes = {finding.fix for finding in findings if finding.fix is not None}
    valid = {fix for together in _apart(fixes) for fix in _valid(source, together)}
    return [item if item.fix is None or item.fix in valid else replace(item, fix=None) for item in findings]


def _apart(fixes: Iterable[Fix]) -> list[list[Fix]]:
    """Fixes in as few groups as need be so that no two of a group touch each other's text."""
    groups: list[tuple[Position, list[Fix]]] = []
    for fix in sorted(fixes, key=lambda fix: fix.region):
        start, end = fix.region.start, fix.region.end
        place = next((index for index, (last, _) in enumerate(groups) if last < start), len(groups))
        group = groups[place][1] if place < len(groups) else []
        groups[place : place + 1] = [(end, [*group, fix])]
    return [group for _, group in groups]


def _valid(source: SourceFile, fixes: Sequence[Fix]) -> Iterator[Fix]:
    """The fixes that give valid Python, found by bisection: nearly always all of them do."""
    if _give_python(source, fixes):
        yield from fixes
    elif len(fixes) > 1:
        middle = len(fixes) // 2
        yield from _valid(source, fixes[:middle])
        yield from _valid(source, fixes[middle:])


def _give_python(source: SourceFile, fixes: Sequence[Fix]) -> bool:
    from torchlint.syntax.reading import is_python  # nobody pays for it who has no fix to offer

    try:
        return is_python(source.edited(edit for fix in fixes for edit in fix.edits))
    except SourceError:
        return False
