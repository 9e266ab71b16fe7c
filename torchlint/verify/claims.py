"""The claim of a finding about a running program: its lines, its blocks and the names to observe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchlint.finding import Finding, Severity
from torchlint.verify.asked import Place, asked_of
from torchlint.verify.paths import AccessPath
from torchlint.verify.statements import (
    Lines,
    body_of,
    header_of,
    is_in_short_loop,
    span_lines,
    statement_at,
    statements_of,
)


@dataclass(frozen=True)
class Claim:
    """A finding as questions to a running program. `file` is a real path."""

    index: int
    rule: str
    file: str
    statement: Lines
    """The lines of the flagged statement; of a compound one, its header."""
    reach: Lines
    """The lines whose running means that the finding was reached."""
    lines: tuple[Lines, ...]
    """The flagged statement and the statements it is about: the step, the backward, the loop."""
    scope: Lines
    """The function, or module, around it."""
    blocks: tuple[Lines, ...]
    """Bodies in which gradients are off. To count calls of a function: its first statement. To count steps:
    the steps, and the backward that they belong to."""
    names: tuple[AccessPath, ...] = ()
    container: tuple[AccessPath, ...] = ()
    resets: tuple[Lines, ...] = ()
    """Statements that empty the container, in the innermost loop that fills it."""
    raises: bool = True
    """Whether the finding says that PyTorch will raise."""
    is_short: bool = False
    """Whether the innermost loop around it has a few turns, the same number each time: `for _ in range(10)`."""

    def plan(self, file: int) -> dict[str, Any]:
        """The claim as the probe receives it; `file` is a number in the plan's list."""
        return {
            "index": self.index,
            "rule": self.rule,
            "file": file,
            "statement": self.statement,
            "reach": self.reach,
            "blocks": self.blocks,
            "names": self.names,
            "container": self.container,
            "resets": self.resets,
        }


def claim(index: int, finding: Finding, file: str, source: bytes) -> Claim:
    """The claim of a finding in a file with this text; raises `SyntaxError` and `ValueError` as `ast.parse` does."""
    statements = statements_of(source)
    flagged = statement_at(statements, finding.span.start)
    related = [statement_at(statements, item.span.start) for item in finding.related]
    everything = [statement for statement in (flagged, *related) if statement is not None]
    header = header_of(flagged) if flagged else span_lines(finding.span)
    place = Place(statements, flagged, everything, header)
    asked = asked_of(finding.name, place)
    return Claim(
        index,
        finding.name,
        file,
        header,
        asked.reach or place.reach,
        tuple(header_of(statement) for statement in everything) or (header,),
        body_of(place.function) if place.function is not None else (1, len(source.splitlines()) + 1),
        asked.blocks,
        asked.names,
        asked.container,
        asked.resets,
        finding.severity is not Severity.WARNING,
        is_in_short_loop(statements, header, place.function),
    )
