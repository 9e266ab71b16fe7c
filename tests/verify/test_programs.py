"""Programs with known verdicts: a comment `# verify: RULE VERDICT` on a line is a finding, and what a run must say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from torchlint.finding import Finding, Position, Severity, Span
from torchlint.source import SourceFile
from torchlint.verify.folder import Limits
from torchlint.verify.session import Subject, Verification, verify

pytest.importorskip("torch")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
AT_ONCE = 2
MARKER = re.compile(r"# verify: ([\w-]+) ([\w-]+)")
UNDECIDED = {
    # What torch.compile has compiled does not run line by line.
    ("compiled_masked_attention_ok", "inplace-on-saved-tensor"),
}
"""Findings that must be refuted, of which a run can say nothing."""


def subjects(path: Path) -> tuple[list[Subject], list[str]]:
    """The findings of the markers, and the verdicts that they must get."""
    source = SourceFile.read(path)
    found, expected = [], []
    for number, line in enumerate(source.lines, 1):
        for marker in MARKER.finditer(line):
            start = len(line) - len(line.lstrip())
            span = Span(Position(number, start), Position(number, len(line)))
            found.append(Subject(Finding(source.path, marker[1], "TL000", "", span, Severity.ERROR), source))
            undecided = (path.stem, marker[1]) in UNDECIDED
            expected.append("inconclusive" if undecided else marker[2])
    return found, expected


@pytest.fixture(scope="session")
def verifications() -> Iterator[dict[Path, Future[Verification]]]:
    """All programs, run side by side."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        limits = Limits(max_seconds=60)
        yield {
            path: pool.submit(verify, [sys.executable, str(path)], subjects(path)[0], path.parent, limits)
            for path in PROGRAMS
        }


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path: Path, verifications: dict[Path, Future[Verification]]) -> None:
    verification = verifications[path].result()
    said = [(item.finding.name, item.verdict.answer.value) for item in verification.judged]
    expected = [(subject.finding.name, verdict) for subject, verdict in zip(*subjects(path), strict=True)]
    reasons = "\n".join(item.verdict.reason for item in verification.judged)
    assert said == expected, f"{reasons}\n{verification.notes}"


def test_the_programs_cover_every_verdict_of_every_rule() -> None:
    """All but those that need a GPU."""
    from torchlint.verify.verdict import VERIFIABLE

    covered = {
        (subject.finding.name, verdict) for path in PROGRAMS for subject, verdict in zip(*subjects(path), strict=True)
    }
    assert len(PROGRAMS) >= 60
    for rule in VERIFIABLE:
        assert (rule, "refuted") in covered
        assert (rule, "confirmed") in covered or rule == "empty-cache-in-loop"
