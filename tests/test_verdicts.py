"""The linter against programs whose findings were judged by running them: what was refuted must not be reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.thinning import thinned
from torchlint.engine.examination import lint
from torchlint.engine.registry import select
from torchlint.files.source import SourceFile

PROGRAMS = sorted((Path(__file__).parent / "verify" / "programs").glob("*.py"))
UNSEEN = "unseen by the linter"
"""The marker of a bug that the linter does not report: no new one may come, and fixed ones must go."""
MARKER = re.compile(rf"# verify: ([\w-]+) (confirmed, {UNSEEN}|confirmed|refuted)\b")

_PREVIEWS = ("backward-arity", "discarded-result", "step-without-backward")
"""Rules whose previews the programs hold."""
_ONLY_A_RUN_KNOWS = {("errors_of_lines_ok", "absent-class-weights")}
"""Programs with a finding that the linter cannot know to be wrong: the batch holds each class."""
Place = tuple[str, int]


def judged(path: Path, verdict: str) -> set[Place]:
    """The rules and lines of a program that have this verdict."""
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    return {(rule, number) for number, line in lines for rule, found in MARKER.findall(line) if found == verdict}


def reported(path: Path) -> set[Place]:
    """The linter is quieter in tests, so the program is called as if it were none."""
    source = SourceFile("program.py", path.read_bytes())
    return {(finding.name, finding.span.start.line) for finding in lint(source, select(extended=_PREVIEWS))}


@pytest.mark.parametrize("path", thinned(PROGRAMS, every=3), ids=lambda path: path.stem)
def test_verdicts(path: Path) -> None:
    found = {place for place in reported(path) if (path.stem, place[0]) not in _ONLY_A_RUN_KNOWS}
    true, unseen, wrong = (judged(path, verdict) for verdict in ("confirmed", f"confirmed, {UNSEEN}", "refuted"))
    assert found & wrong == set(), "a false alarm"
    if path.stem.endswith("_ok"):
        assert {rule for rule, _ in found} & {rule for rule, _ in wrong} == set(), "a false alarm elsewhere"
    assert true - found == set(), "a bug that was found before"
    assert unseen & found == set(), f"strike out `{UNSEEN}`"
