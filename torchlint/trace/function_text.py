"""The events of one function, for people: its optimizers, an outline of its events, and its unknowns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from torchlint.colours import Paint
from torchlint.files.source import SourceFile
from torchlint.model import events
from torchlint.outputs.escaping import printable
from torchlint.trace.code import code
from torchlint.trace.columns import Line, columns, wrapped
from torchlint.trace.document import Arm, FunctionTrace, Row
from torchlint.trace.outline import STRUCTURE, Outline, for_people
from torchlint.trace.values import PLAIN
from torchlint.trace.wording import Wording

_ALWAYS = frozenset(
    {
        events.Backward, events.Grad, events.Clear, events.Step, events.Unscale, events.ScheduleStep, events.Keep,
        events.Mutate, events.Yield, events.Clip, events.GradRead, events.EmptyCache, events.MemoryProbe,
        events.Anomaly,
    }
)  # fmt: skip
"""Events that are always shown; others are where an answer of the model makes them matter."""
_WORDS = {
    "grad": "autograd", "mutate": "change", "grad-read": "gradients", "empty-cache": "cache", "memory-probe": "memory",
    "may-clear": "call", "compute": "operator", "fresh": "make", "returned": "return", "read": "use",
    "mode-switch": "mode",
    "inlined": "follow", "comprehension": "repeat", "closure": "repeat", "boolean": "perhaps", "conditional": "either",
    "callees": "one of", "schedule-step": "schedule",
}  # fmt: skip
"""Words for rows where they are not the kind or form."""
_HEADED = frozenset({"for", "while", "if", "match"})
"""Loops and branches that are shown as the first line of their source."""
_OTHER_ARMS = {"conditional": "or", "callees": "or", "try": "except:"}
"""Words before the second and later arms of a branch."""


class FunctionText:
    """Tells of one function; with `everything` also of operators, calls and reads that decide nothing."""

    def __init__(self, source: SourceFile, function: FunctionTrace, words: Wording, *, everything: bool) -> None:
        self._source = source
        self._function = function
        self._words = words
        self._everything = everything
        rows = for_people(function.rows)
        self._stepping = {row.facts["optimizer"] for row in rows if row.kind is events.Step}
        self._outline = Outline(rows, self._is_wanted, self._is_elif)
        self._rows = list(self._outline.shown())

    @property
    def is_empty(self) -> bool:
        return not self._rows and not self._function.optimizers

    @property
    def hidden(self) -> int:
        """The number of events that are not shown."""
        count = sum(row.kind not in STRUCTURE for row in self._outline.rows)
        return count - sum(row.kind not in STRUCTURE for _, row in self._rows)

    def lines(self, paint: Paint) -> Iterator[str]:
        yield self._heading(paint)
        for holding in self._function.optimizers:
            yield from wrapped(printable(f"{self._role(holding.value)} {self._words.holding(holding)}"), "  ")
        yield from columns([line for line, _ in groupby(self._lines())], paint)
        for name, nature in self._unknowns():
            told = f"unknown {name}: {nature}" if name.startswith("`") else f"unknown: {nature}"
            yield from wrapped(printable(told), "  ")

    def _heading(self, paint: Paint) -> str:
        if self._function.span is None:
            return paint("the file's own statements", "heading")
        place = self._source.place(self._function.span.start)
        cell = "" if place.cell is None else f"cell {place.cell}, "
        called = "; something of this name is called in the file" if self._function.called else ""
        return f"{paint(self._function.name, 'heading')} ({cell}line {place.line}{called})"

    def _role(self, value: str) -> str:
        """An object that is cleared but never steps may also be a module."""
        return "optimizer" if value in self._stepping or not self._words.is_unknown(value) else "optimizer or module"

    # -- rows ---------------------------------------------------------------------------------------

    def _is_wanted(self, row: Row) -> bool:
        if row.kind in STRUCTURE:
            return False
        is_number = row.kind is events.Keep and row.facts["value"] == PLAIN and row.facts["how"] != "clear"
        if self._everything or (row.kind in _ALWAYS and not is_number):
            return True
        decides = not row.facts.keys().isdisjoint(("clears", "forward", "may_go_backward"))
        return decides or bool(self._words.stepping(self._callee(row)))

    def _is_elif(self, row: Row) -> bool:
        return row.facts.get("form") == "if" and self._code(row).startswith("elif")

    def _lines(self) -> Iterator[Line]:
        for index, row in self._rows:
            place = self._source.place(row.span.start) if row.span else None
            word, shown, note = self._told(index, row)
            if word or shown:
                yield Line(place, self._outline.indents[index], word, shown, printable(note))

    def _told(self, index: int, row: Row) -> tuple[str, str, str]:
        """Word, source and note of a row."""
        form: str = row.facts.get("form", row.word)
        if row.kind is Arm:
            return "", self._arm(index, row), ""
        if row.kind in (events.Exit, events.Try):
            return "", str(row.facts.get("by", "try:")), ""
        if form in _HEADED:
            return "", self._code(row), ""
        word = "forward" if "forward" in row.facts else _WORDS.get(form, form)
        return word, self._code(row), self._words.note(row, self._callee(row), self._function.optimizers)

    def _arm(self, index: int, row: Row) -> str:
        """The words before an arm of a branch; mostly none before the first."""
        number, branch = row.facts["number"], self._outline.rows[self._outline.around[index]]
        form = branch.facts.get("form", branch.word)
        if form == "match":
            return f"case {number + 1}:"
        if form == "if" and number:
            first = self._outline.first_in(index)
            return "" if first is not None and self._is_elif(first) else "else:"
        return _OTHER_ARMS.get(form, "") if number else ""

    def _code(self, row: Row) -> str:
        return code(self._source, row.span) if row.span is not None else ""

    def _callee(self, row: Row) -> str:
        """The id of what an unresolved call calls."""
        return str(self._words.values[row.facts["value"]].get("callee", "")) if row.kind is events.Call else ""

    def _unknowns(self) -> Iterator[tuple[str, str]]:
        """The unknown values on which the events depend, each with what it is."""
        mentioned = [value for holding in self._function.optimizers for value in holding.holds]
        for _, row in self._rows:
            mentioned += [row.facts[name] for name in ("loss", "target", "optimizer") if row.facts.get(name)]
            mentioned += [self._callee(row)] if "forward" in row.facts else []
        told = {holding.value for holding in self._function.optimizers}
        unknown = [value for value in mentioned if value not in told and self._words.is_unknown(value)]
        return iter(dict.fromkeys((self._words.name(value), self._words.nature(value)) for value in unknown))
