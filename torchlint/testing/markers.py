"""Marker comments of fixtures, `# expect: <rule>` and its kin: read from comments, compared with findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchlint.finding import Finding

Problem = tuple[int, str]
"""A line and what is wrong there."""

_HEAD = re.compile(r"#\s*(todo-expect|todo-ok|expect|ok):")
_ITEM = re.compile(r'\s*([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?:@(\d+))?(?:\s+"([^"]*)")?')


@dataclass(frozen=True)
class Marker:
    """A comment's word on one line: `# expect: missing-zero-grad@5 "of `optimizer`"`."""

    kind: str
    line: int
    rule: str
    column: int | None
    text: str

    @property
    def fires(self) -> bool:
        """Whether the rule is to fire on the line: as it should, or as a known false alarm."""
        return self.kind in ("expect", "todo-ok")

    def matches(self, finding: Finding) -> bool:
        start = finding.span.start
        here = (finding.name, start.line) == (self.rule, self.line)
        return here and self.column in (None, start.column + 1) and self.text in finding.message

    def __str__(self) -> str:
        column = f"@{self.column}" if self.column else ""
        return f"{self.rule}{column}" + (f' "{self.text}"' if self.text else "")


class MalformedMarker(Exception):
    """A comment that is almost a marker, or names no rule."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def read(comment: str, line: int, known: set[str]) -> Iterator[Marker]:
    """The markers of one comment; raises `MalformedMarker`. `known` are the names of rules."""
    heads = list(_HEAD.finditer(comment))
    if not heads and "torchlint:" not in comment and known & set(re.findall(r"[a-z0-9-]+", comment)):
        raise MalformedMarker(line, f"names a rule but is no marker: `{comment}`")
    ends = [head.start() for head in heads[1:]] + [len(comment)]
    for head, end in zip(heads, ends, strict=False):
        yield from _items(head[1], comment[head.end() : end], line, known)


def _items(kind: str, body: str, line: int, known: set[str]) -> Iterator[Marker]:
    position, more = 0, True
    while more:
        item = _ITEM.match(body, position)
        if item is None:
            raise MalformedMarker(line, f"`{kind}:` needs a rule name, found `{body.strip()}`")
        if item[1] not in known:
            raise MalformedMarker(line, f"`{kind}:` names an unknown rule `{item[1]}`")
        yield Marker(kind, line, item[1], int(item[2]) if item[2] else None, item[3] or "")
        position = item.end()
        more = body.startswith(",", position)
        position += more
    reason = body[position:].strip()
    if kind == "expect" and reason:
        raise MalformedMarker(line, f'`expect:` takes names and "texts" only, found `{reason}`')
    if kind == "ok" and not reason:
        raise MalformedMarker(line, "`ok:` needs the reason after the name")


def mismatches(markers: Iterable[Marker], findings: Sequence[Finding]) -> Iterator[Problem]:
    """Where markers and findings differ, in either direction."""
    left = list(findings)
    exact_first = sorted(markers, key=lambda marker: (marker.column is None, not marker.text))
    for marker in exact_first:
        if not marker.fires:
            continue
        hit = next((finding for finding in left if marker.matches(finding)), None)
        if hit is not None:
            left.remove(hit)
        elif marker.kind == "todo-ok":
            yield marker.line, f"known false alarm of {marker} is gone: make the marker `ok:`"
        else:
            here = [described(finding) for finding in left if finding.span.start.line == marker.line]
            yield marker.line, f"expected {marker}, found {' and '.join(here) or 'nothing'}"
    for finding in left:
        guards = [marker for marker in markers if not marker.fires and marker.matches(finding)]
        if any(marker.kind == "todo-expect" for marker in guards):
            text = f"known miss of {finding.name} is found: make the marker `expect:`"
        else:
            text = f"{'marked ok' if guards else 'no marker'}, found {described(finding)}"
        yield finding.span.start.line, text


def described(finding: Finding) -> str:
    """A finding as a marker would name it, and its message."""
    return f"{finding.name}@{finding.span.start.column + 1}: {finding.message}"
