"""Findings as plain data: frozen, picklable, with no syntax node inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """How bad a finding is for a training run."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


class Confidence(str, Enum):
    """The certainty of a finding.

    A finding of low confidence is a preview: too few of its kind were true and useful on public code.
    """

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Category(str, Enum):
    """A promise about precision that sets whether a rule is on and how it is reported.

    correctness: no known false alarm; on, error.  suspicious: on, warning.
    performance: on, information.  pedantic: off.
    A finding may have a different severity; its rule documents when, under "Severity".
    """

    CORRECTNESS = "correctness"
    SUSPICIOUS = "suspicious"
    PERFORMANCE = "performance"
    PEDANTIC = "pedantic"

    @property
    def on_by_default(self) -> bool:
        return self is not Category.PEDANTIC

    @property
    def severity(self) -> Severity:
        return _SEVERITIES[self]


_SEVERITIES = {
    Category.CORRECTNESS: Severity.ERROR,
    Category.SUSPICIOUS: Severity.WARNING,
    Category.PERFORMANCE: Severity.INFORMATION,
    Category.PEDANTIC: Severity.HINT,
}


class Position(NamedTuple):
    """A place in the text: line from 1, column from 0 in code points."""

    line: int
    column: int


class Span(NamedTuple):
    """A range of text, the end excluded."""

    start: Position
    end: Position


class Related(NamedTuple):
    """The other half of a finding: the step, the loop, the container."""

    span: Span
    message: str


HAPPENS_HERE = "it happens here"
"""The message at the place in another file that a finding is about."""


class Elsewhere(NamedTuple):
    """A place in another file that a finding is about: `path` as that of the finding is shown."""

    path: str
    span: Span
    utf16: Span
    """The same with columns in UTF-16, as editors count."""
    message: str


class Safety(str, Enum):
    """Whether a fix may be made without being read: an unsafe one may change numbers, memory or control flow."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class Edit(NamedTuple):
    """Text that takes the place of a span; an empty span inserts."""

    span: Span
    content: str


@dataclass(frozen=True)
class Fix:
    """Edits that remove a defect, none of which overlap. `message` says in the imperative what they do."""

    message: str
    edits: tuple[Edit, ...]
    safety: Safety

    @property
    def region(self) -> Span:
        """From where the first edit begins to where the last one ends."""
        return Span(min(edit.span.start for edit in self.edits), max(edit.span.end for edit in self.edits))

    @property
    def lines(self) -> set[int]:
        """The lines of the text that the edits change."""
        return {line for edit in self.edits for line in range(edit.span.start.line, edit.span.end.line + 1)}


@dataclass(frozen=True)
class Finding:
    """One defect at one place of one file.

    `name` is the rule's primary name, `code` its short alias; `fingerprint` stays the same when the
    finding only moves to another line.
    """

    path: str
    name: str
    code: str
    message: str
    span: Span
    severity: Severity
    confidence: Confidence = Confidence.HIGH
    related: tuple[Related, ...] = field(default=())
    help: str = ""
    fingerprint: str = ""
    fix: Fix | None = None
    elsewhere: tuple[Elsewhere, ...] = field(default=())

    @property
    def sort_key(self) -> tuple[str, Span, str, str]:
        return (self.path, self.span, self.code, self.message)


def fingerprint(name: str, line: str, number: int) -> str:
    """The identity of a finding that only moves: its rule, its line, and its number among equal ones, from 1."""
    import hashlib  # not worth its time in a run that finds nothing

    return hashlib.sha256(f"{name}\0{line.strip()}\0{number}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class Meta:
    """The facts about a rule, or about a check of the engine, that are known without running it.

    `documentation` is Markdown whose first line states the defect.
    """

    name: str
    code: str
    category: Category
    documentation: str
    preview: bool = False
    aliases: tuple[str, ...] = ()
    """Codes that another linter has for the same: `TOR101`."""
    is_maintenance: bool = False
    """Whether its findings harm no training today: deprecated names."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """The names that mean only this rule, in lower case; an alias may mean several."""
        return (self.name, *(code.lower() for code in (self.code, *self.aliases)))

    def is_meant_by(self, selector: str) -> bool:
        """Whether a selector means this rule, alone or among others.

        It does if it is a name, a code or the beginning of one, a category or `all`, in upper or lower case.
        """
        lower, upper = selector.lower(), selector.upper()
        if lower in (self.name, self.category.value, "all"):
            return True
        return bool(selector) and any(code.startswith(upper) for code in (self.code, *self.aliases))

    @property
    def summary(self) -> str:
        return self.documentation.strip().split("\n", 1)[0].strip()
