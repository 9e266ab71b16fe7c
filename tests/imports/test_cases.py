"""Programs of two or three files, each run on torch: a finding where only both files show the bug, none in the others.

`case.json` says which rule should speak, at which of the places, and what running the program has shown.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from torchlint.engine import registry
from torchlint.engine.examination import examine
from torchlint.engine.following import Following
from torchlint.files.source import SourceFile
from torchlint.finding import Finding

CASES = Path(__file__).parent / "cases"
MISSED = {
    "agent_from_factory",  # the words that matter are two imports away
    "encoder_stays_frozen",
    "module_keeps_activations",
}
"""Cases that no rule finds yet."""


def names(kind: str) -> list[str]:
    return sorted(path.name for path in (CASES / kind).iterdir())


def findings(case: Path, folder: Path) -> list[Finding]:
    """The findings in a copy, because files below a folder `tests` count as tests."""
    shutil.copytree(case, folder, dirs_exist_ok=True)
    following = Following(here=str(folder))
    selection = registry.select(preview=True, following=following)
    found = (examine(SourceFile.read(path, path.name), selection).findings for path in sorted(folder.glob("*.py")))
    return [finding for each in found for finding in each]


def places(finding: Finding) -> set[str]:
    own = (finding.span, *(related.span for related in finding.related))
    elsewhere = {f"{place.path}:{place.span.start.line}" for place in finding.elsewhere}
    return {f"{finding.path}:{span.start.line}" for span in own} | elsewhere


@pytest.mark.parametrize("name", names("right"))
def test_nothing_is_found_in_a_right_program(name: str, tmp_path: Path) -> None:
    assert findings(CASES / "right" / name, tmp_path) == []


@pytest.mark.parametrize("name", names("wrong"))
def test_a_bug_is_found_that_two_files_show(name: str, tmp_path: Path) -> None:
    folder = CASES / "wrong" / name
    case: dict[str, Any] = json.loads((folder / "case.json").read_text("utf-8"))
    found = [item for item in findings(folder, tmp_path) if not places(item).isdisjoint(case["places"])]
    assert ({item.name for item in found} == {case["rule"]}) is (name not in MISSED)
