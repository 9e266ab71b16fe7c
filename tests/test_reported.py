"""Bugs that people reported, re-created: what finds each, and that nothing is said of its repaired twin.

`python tests/test_reported.py` writes `tests/reported/cases.tsv` anew, and the page about it.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from torchlint.cli import cli

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "reported"
TABLE = FOLDER / "cases.tsv"
PAGE = ROOT / "docs" / "reported.md"
FIELDS = ("case", "family", "lines", "source", "wrong", "default", "preview", "ruff", "torchfix", "ty")
TOOLS = FIELDS[5:]
OTHERS = {
    "ruff": ("check", "--isolated", "--no-cache", "--select", "ALL", "--output-format", "concise", "--exit-zero"),
    "torchfix": ("--select", "ALL"),
    "ty": ("check", "--output-format", "concise", "--exit-zero", "--project", "{empty}"),
}
CODE = re.compile(r"^\S+:\d+:\d+: (?:\w+\[)?([\w-]+)", re.M)
"""Behind the place: `F401` of ruff, `error[invalid-argument-type]` of ty."""

INTRODUCTION = """\
# Bugs that people reported

The table lists {total} bugs that people reported in public projects. `tests/reported/cases` contains each one as a
small program, with a corrected copy. The people who wrote these programs had not seen our rules. When we first ran
torchlint on the first 77 programs, it found 8 of the bugs with its default rules. In the next 32 programs, which are
about data, scores, schedules and checkpoints, it first found 8 bugs, too, 2 of them at a different line. In 36
programs about the training step, it first found 16, and in 27 programs about numbers and sizes 11. We then used the
bugs to improve the rules, so the second table below does not show how many bugs torchlint finds in other code.

To estimate that, we test torchlint on new bugs before we use them to improve the rules. They are not among the
{total}, unless the note says so. Some are about gradients, weights and modes, the others about numbers, sizes and data.
"Found" means with default rules.

| Test on new bugs | Found | Gradients, weights, modes | Numbers, sizes, data | Note |
| --- | ---: | ---: | ---: | --- |
| 29 November 2026 | 12 of 40 | 9 of 20 | 3 of 20 | |
| 30 November 2026 | 13 of 40 | 8 of 20 | 5 of 20 | |
| 30 November 2026, second test | 9 of 40 | 5 of 20 | 4 of 20 | torchlint also reported one corrected copy |
| 30 November 2026, third test | 13 of 40 | 9 of 20 | 4 of 20 | two findings were at a different line |
| 1 December 2026 | 12 of 40 | 6 of 20 | 6 of 20 | three at a different line; previews found two more |
| 1 December 2026, second test | 13 of 40 | 9 of 20 | 4 of 20 | two at a different line; previews found three more |
| 1 December 2026, third test | 7 of 24 | 4 of 9 | 3 of 15 | without 16 bugs that we had already used |
| 1 December 2026, fourth test | 16 of 36 | 16 of 36 | | previews found two more; these bugs are in the table now |
| 1 December 2026, fifth test | 8 of 32 | | 8 of 32 | two at a different line; these bugs are in the table now |
| 1 December 2026, sixth test | 11 of 27 | | 11 of 27 | previews found one more; these bugs are in the table now |
| 1 December 2026, seventh test | 6 of 40 | 3 of 8 | 3 of 32 | previews found one more |

The next table shows each of the {total} bugs. A cell lists the codes that a tool reports for the bug but not for the
corrected copy. ruff and TorchFix ran with all their rules. ty ran without PyTorch installed.
"""


class Found(NamedTuple):
    """The codes that are reported of a program and not of its twin, and those reported of the twin."""

    bug: frozenset[str]
    twin: frozenset[str]


def torchlint_codes(folder: Path, *options: str) -> frozenset[str]:
    """The codes of the findings in a folder, in a place that does not sound like tests."""
    with TemporaryDirectory() as work:
        project = shutil.copytree(folder, Path(work) / "project")
        line = ["check", str(project), "--isolated", "--no-cache", "--jobs", "1", "--output-format", "json-flat"]
        done = CliRunner().invoke(cli, [*line, *options])
    assert done.exit_code in (0, 1), done.output
    return frozenset(finding["code"] for finding in json.loads(done.stdout))


def compare(case: str, *options: str) -> Found:
    bug, twin = (torchlint_codes(FOLDER / "cases" / case / side, *options) for side in ("bug", "fixed"))
    return Found(bug - twin, twin)


def table() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


CASES = {row["case"]: row for row in table()} if TABLE.exists() else {}


def test_every_case_is_listed() -> None:
    assert sorted(path.name for path in (FOLDER / "cases").iterdir()) == sorted(CASES)


@pytest.mark.halved
@pytest.mark.parametrize("case", CASES)
def test_found_by_default(case: str) -> None:
    found = compare(case)
    assert sorted(found.bug) == CASES[case]["default"].split()
    assert found.twin == frozenset()


@pytest.mark.halved
@pytest.mark.parametrize("case", CASES)
def test_found_with_previews(case: str) -> None:
    found = compare(case, "--preview")
    assert sorted(found.bug) == CASES[case]["preview"].split()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(CASES.values())


# -- the page -------------------------------------------------------------------------------------------


def page(rows: Iterable[dict[str, str]]) -> str:
    rows = list(rows)
    counts = [str(sum(bool(row[name]) for row in rows)) for name in TOOLS]
    lines = [
        INTRODUCTION.format(total=len(rows)),
        "| Bug | torchlint | with previews | ruff | TorchFix | ty |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [f"{row['wrong']} ({row['source']})", *(row[name] or "no" for name in TOOLS)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines.append(f"| **of {len(rows)}** | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def other_codes(program: str, folder: Path, empty: Path) -> frozenset[str]:
    """The findings of another program for a folder, as codes."""
    line = [shutil.which(program) or program, *(option.format(empty=empty) for option in OTHERS[program]), str(folder)]
    done = subprocess.run(line, capture_output=True, encoding="utf-8")
    return frozenset(CODE.findall(done.stdout))


def write(empty: Path) -> None:
    rows = table()
    for row in rows:
        row["default"] = " ".join(sorted(compare(row["case"]).bug))
        row["preview"] = " ".join(sorted(compare(row["case"], "--preview").bug))
        for program in OTHERS:
            bug, twin = (
                other_codes(program, FOLDER / "cases" / row["case"] / side, empty) for side in ("bug", "fixed")
            )
            row[program] = " ".join(sorted(bug - twin))
    lines = ["\t".join(FIELDS), *("\t".join(row[name] for name in FIELDS) for row in rows)]
    TABLE.write_text("\n".join(lines) + "\n", "utf-8")
    PAGE.write_text(page(rows), "utf-8")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        write(Path(folder))
    sys.exit(0)
