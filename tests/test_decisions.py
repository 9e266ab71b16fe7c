"""docs/decisions: one file per number, short, in one form; superseded ones say by which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("*.md"))


def test_numbers_have_no_gaps() -> None:
    numbers = [int(path.name[:4]) for path in PAGES]
    assert len(numbers) == len({*numbers})
    assert {*numbers} == {*range(1, max(numbers) + 1)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_decision_is_short_and_names_its_successor(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith(f"# {path.name[:4]} ")
    assert 10 <= len(text.splitlines()) <= 30
    for successor in re.findall(r"^\*Superseded by \[\d{4}\]\((\S+)\)", text, re.M):
        assert (FOLDER / successor).is_file()
        assert path.name in (FOLDER / successor).read_text("utf-8")
