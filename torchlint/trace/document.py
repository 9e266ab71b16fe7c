"""The contents of a trace, without nodes of any parser, and its JSON with one row a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torchlint.files.source import SourceFile
from torchlint.finding import Span

Facts = dict[str, Any]
"""Facts about something, as JSON; defaults are left out."""
Place = list[int]
"""Line and column in code points, both from 0; in a notebook those in the cell, whose number comes third."""


class Arm:
    """The kind of a row that holds one of the sequences of a branch."""


@dataclass(frozen=True)
class Row:
    """An event, or a part of the program that holds the deeper rows that follow: an outline in flow order."""

    depth: int
    kind: type[object]
    """A class of `torchlint.model.events`, or `Arm`."""
    span: Span | None
    facts: Facts

    @property
    def word(self) -> str:
        """The kind as JSON has it: `grad-read` of `GradRead`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.kind.__name__).lower()


@dataclass(frozen=True)
class Holding:
    """The optimizer `value` and the modules and leaves that it holds; `complete` if these are all of them."""

    value: str
    holds: tuple[str, ...]
    complete: bool


@dataclass(frozen=True)
class FunctionTrace:
    """The events of a function, or of the module's own statements (`name` is empty), with those of its callees."""

    name: str
    span: Span | None
    called: bool
    """Whether the file calls something of this name, though no call could be followed."""
    optimizers: tuple[Holding, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Answered:
    """The answer of a relation, named by it, about the code of a span."""

    relation: str
    span: Span
    text: str


@dataclass(frozen=True)
class FileTrace:
    """All that the model saw in a file. A value has an id, its label and where it was made: `loss@13:15`."""

    source: SourceFile
    rules: tuple[str, ...]
    """The names of the rules that look into the file, of those that were asked about."""
    is_test: bool
    """Whether the path is that of a test, of which some rules expect less."""
    functions: tuple[FunctionTrace, ...]
    values: Mapping[str, Facts]
    """By id the kind of a value, what is known of it, and whether it is tracked, that is, has a graph."""
    skipped: tuple[tuple[str, Span], ...]
    """The functions that were not interpreted."""
    cut_short: bool
    """Whether the model has given up following calls, since there was too much to interpret."""
    modules: Mapping[str, str] | None
    """The modules of the repository that were asked for, by the way to them from the file, and why one is not followed.

    It is "" of those that are. None: imports of this file are not followed.
    """
    answers: tuple[Answered, ...] = ()
    """The answers of the relations of `torchlint.model.relations` about the file."""

    def json(self) -> str:
        """One JSON object, with a line for each row and each value."""
        parts = {
            "path": _text(self.source.path),
            "rules": _text(self.rules),
            "is_test": _text(self.is_test),
            "functions": _block("[]", (self._function(function) for function in self.functions)),
            "values": _block("{}", (f"{_text(key)}:{_text(facts)}" for key, facts in self.values.items())),
            "skipped": _block(
                "[]", (_text({"name": name, "at": place(self.source, span)}) for name, span in self.skipped)
            ),
            "cut_short": _text(self.cut_short),
            **({} if self.modules is None else {"modules": _text(self.modules)}),
            **({"answers": _block("[]", map(self._answer, self.answers))} if self.answers else {}),
        }
        return "{" + ",\n".join(f'"{name}":{text}' for name, text in parts.items()) + "}"

    def _function(self, function: FunctionTrace) -> str:
        head = _text({"name": function.name, **self._at(function.span), "called": function.called})
        optimizers = _block("[]", (_text(vars(holding)) for holding in function.optimizers))
        rows = _block("[]", map(self._row, function.rows))
        return f'{head[:-1]},\n"optimizers":{optimizers},\n"rows":{rows}}}'

    def _row(self, row: Row) -> str:
        return _text({"depth": row.depth, "kind": row.word, **self._at(row.span), **row.facts})

    def _answer(self, answer: Answered) -> str:
        return _text({"relation": answer.relation, **self._at(answer.span), "text": answer.text})

    def _at(self, span: Span | None) -> Facts:
        return {} if span is None else {"at": place(self.source, span)}


def place(source: SourceFile, span: Span) -> Place:
    """Where a span starts."""
    found = source.place(span.start)
    return [found.line - 1, found.column, *([] if found.cell is None else [found.cell])]


def place_text(place: Place) -> str:
    """A place in a few characters, as in ids: `line:column`, in a notebook `cell/line:column`."""
    line, column, *cell = place
    return f"{cell[0]}/{line}:{column}" if cell else f"{line}:{column}"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _block(brackets: str, lines: Iterable[str]) -> str:
    inside = ",\n".join(lines)
    return f"{brackets[0]}\n{inside}\n{brackets[1]}" if inside else brackets
