"""Pages of fixtures: their structure, their reader, and the number of their markers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from torchlint import testing
from torchlint.testing.harness import Program

FIXTURES = Path(__file__).parent.parent / "fixtures"
PAGES = sorted(FIXTURES.glob("*/*.md"))
PROGRAMS = [fixture for fixture in testing.fixtures(FIXTURES) if isinstance(fixture, Program)]
PAGE = """\
# A behaviour

Prose.

```python
import torch


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x).sum().backward()  # expect: missing-zero-grad
        optimizer.step()
```
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_is_for_readers(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.match(r"# \S.*\n\n[A-Z`]", text), "a page starts with a title and an introduction"
    outside = re.sub(r"^```(?:python|diff)\n.*?^```$", "", text, flags=re.M | re.S)
    assert "```" not in outside, "programs are `python` blocks, and their fixes are `diff` blocks"
    titles = re.findall(r"^## .*$", outside, re.M)
    assert len(titles) > 1 and len(set(titles)) == len(titles)


def test_pages_keep_their_markers() -> None:
    """The numbers are those of the files that the pages replaced; raise them with new markers."""
    found = Counter(program.rule for program in PROGRAMS for _ in program.markers())
    assert found["missing-zero-grad"] >= 219
    assert found["undetached-accumulation"] >= 306


def page(folder: Path, text: str) -> Path:
    path = folder / "missing_zero_grad" / "behaviour.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def problems(folder: Path, check: str, *, bless: bool = False) -> list[str]:
    cases = [case for case in testing.cases(folder) if case.check == check]
    return [problem for case in cases for problem in case.problems(bless=bless)]


def test_a_problem_names_the_line_of_the_page(tmp_path: Path) -> None:
    page(tmp_path, PAGE)
    assert problems(tmp_path, "markers") == []
    page(tmp_path, PAGE.replace("  # expect: missing-zero-grad", ""))
    (problem,) = problems(tmp_path, "markers")
    assert "missing_zero_grad/behaviour.md:12: " in problem


def test_blessing_writes_the_fixes_below_the_program(tmp_path: Path) -> None:
    path = page(tmp_path, PAGE)
    assert len(problems(tmp_path, "fixed")) == 1
    assert problems(tmp_path, "fixed", bless=True) == []
    assert problems(tmp_path, "fixed") == []
    written = path.read_text("utf-8")
    assert written.startswith(PAGE) and "```diff\n" in written and "+        optimizer.zero_grad()" in written
    problems(tmp_path, "fixed", bless=True)
    assert path.read_text("utf-8") == written
