"""Traces as a net for the model: short outlines to read, and digests of all that is in them."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from torchlint import SourceFile
from torchlint.trace import FileTrace
from torchlint.trace.document import Facts, FunctionTrace, Row

DIGITS = 16
_SEEN = frozenset({"loops", "calls", "path"})
"""The keys that the indentation already shows."""
_TRACKED = {"yes": "+", "no": "-", "unknown": "?"}


def read(path: Path, folder: Path) -> SourceFile:
    """A file under the name that it has in a folder, on every machine the same. Raises `SourceError`, `OSError`."""
    return SourceFile.read(path, path.relative_to(folder).as_posix())


def digest(trace: FileTrace) -> str:
    """Another one for every other JSON of a trace, but for the answers of relations, which have pages of their own."""
    return hashlib.sha256(replace(trace, answers=()).json().encode()).hexdigest()[:DIGITS]


def outline(trace: FileTrace) -> Iterator[str]:
    """A line for each optimizer and each row, with places as editors count them.

    A value is its name and what it is, `loss:mse_loss`, then `+` if it has a graph, `-` if not, `?` if nobody knows.
    """
    for function in trace.functions:
        if function.optimizers or function.rows:
            yield function.name or "<module>"
            yield from _optimizers(function, trace.values)
            yield from (_line(row, trace) for row in function.rows)
    if trace.skipped:
        yield f"skipped {' '.join(name for name, _ in trace.skipped)}"


def _optimizers(function: FunctionTrace, values: Mapping[str, Facts]) -> Iterator[str]:
    for holding in function.optimizers:
        held = ",".join(_value(value, values) for value in holding.holds)
        yield f" {_value(holding.value, values)} holds {held}{'' if holding.complete else ' and perhaps more'}"


def _line(row: Row, trace: FileTrace) -> str:
    place = f"{row.span.start.line}:{row.span.start.column + 1} " if row.span else ""
    told = {name: fact for name, fact in row.facts.items() if name not in _SEEN}
    facts = [name if fact is True else f"{name}={_fact(fact, trace.values)}" for name, fact in told.items()]
    return " ".join([f"{' ' * (row.depth + 1)}{place}{row.word}", *facts])


def _fact(fact: object, values: Mapping[str, Facts]) -> str:
    if isinstance(fact, dict):
        return ",".join(f"{_label(value, values)}{'?' * (answer != 'yes')}" for value, answer in fact.items())
    if isinstance(fact, list):
        return ",".join(_fact(item, values) for item in fact)
    return _value(fact, values) if isinstance(fact, str) else str(fact)


def _value(value: str, values: Mapping[str, Facts]) -> str:
    facts = values.get(value)
    if facts is None:
        return value
    what = facts.get("op") or facts.get("origin") or facts.get("class") or facts["kind"]
    return f"{_label(value, values)}:{what}{_TRACKED.get(facts.get('tracked', ''), '')}"


def _label(value: str, values: Mapping[str, Facts]) -> str:
    return str(values[value].get("label", ""))


def difference(before: Iterable[str], after: Iterable[str], *, around: int = 0) -> list[str]:
    """Removed lines (`-`) and added lines (`+`), with so many lines around each; empty if nothing changed."""
    lines = difflib.unified_diff(list(before), list(after), lineterm="", n=around)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]
