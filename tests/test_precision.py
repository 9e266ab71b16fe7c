"""How often findings are correct: the page, its chart and the README's figure agree with the table of reviews.

`python tests/test_precision.py` writes the page, the chart and the README's sentence again.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from torchlint.engine import registry

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "precision"
PAGE = ROOT / "docs" / "precision.md"
CHART = ROOT / "docs" / "assets" / "precision.svg"
README = ROOT / "README.md"
LATEST = 5
"""The README counts this many reviews."""
SENTENCE = re.compile(r"<!-- precision -->\n(.*?)\n<!-- /precision -->", re.S)
VERDICTS = {"useful", "copy", "not useful", "true", "unsure", "false"}

HOW = """\
# How often findings are correct

A linter is useful only if its findings are correct. We measure how often they are, on code that we have not used to
develop the rules. Each *review* works like this:

1. We choose public repositories that no earlier review used.
2. torchlint lints them once, with its default rules. We count the findings of this first run.
3. Reviewers check each finding. They also read the code around it, and its callers in other files. Except in reviews 17
   and 18, the reviewers had not written the rules.
4. We correct the rules. After that, we never use these repositories to measure precision again.

A finding is *true* if its message is correct for this code. It is *useful* if the author would want to change the line.
If the same mistake appears in copied code, only the first one counts as useful. A few findings are neither true nor
false, because the reviewers were not sure.

The figures leave out syntax errors and deprecated names (TL802). Nearly all findings of TL802 are true, so reviewers
check only some of them.

## The latest figures

The last {latest} reviews together:

{sentence}

![Findings that were true, in percent, for each review; the bars show the 95 % interval]({chart})

The 95 % interval shows how far chance alone can move the figure: a review of few findings says little. An empty
cell means that we did not count this.

| review | date | repositories | files with torch | findings | true | 95 % interval | useful | false per 1,000 files |
| ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |
{rows}

The intervals are Wilson's. They are too narrow, because findings in one repository often have the same cause.

## What is still wrong

New repositories contain code that torchlint has not seen before, so each review brings new false alarms. These rules
had the most, in all reviews together:

| rule | true | false | correct |
| --- | ---: | ---: | ---: |
{rules}

We have fixed many of these false alarms since. The data are in `tests/precision`:

- `reviews.tsv`: the figures of each review
- `findings.tsv`: the verdicts for each rule
- `causes.tsv`: why a finding was false or not useful, and what we changed
- `repositories.tsv`: every repository, with its commit
- `missed.tsv`: bugs that reviewers saw in this code and that no rule reported at that time
"""


class Review(NamedTuple):
    """One first run on unseen repositories, as its reviewers judged it."""

    name: str
    date: str
    repositories: int
    files: int | None
    findings: int
    true: int
    unsure: int
    useful: int | None

    @property
    def false(self) -> int:
        return self.findings - self.true - self.unsure


def rows(name: str) -> list[dict[str, str]]:
    """The lines of one of the tables, by column."""
    with (FOLDER / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def reviews() -> list[Review]:
    def number(text: str) -> int | None:
        return int(text) if text else None

    return [
        Review(
            row["review"],
            row["date"],
            int(row["repositories"]),
            number(row["torch_files"]),
            int(row["findings"]),
            int(row["true"]),
            int(row["unsure"]),
            number(row["useful"]),
        )
        for row in rows("reviews")
    ]


def interval(true: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, between 0 and 1.

    Source: https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval#Wilson_score_interval
    """
    z, share = 1.96, true / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return middle - half, middle + half


def sentence() -> str:
    last = reviews()[-LATEST:]
    found, true, false = (sum(getattr(one, field) for one in last) for field in ("findings", "true", "false"))
    files = sum(one.files or 0 for one in last)
    repositories = sum(one.repositories for one in last)
    return (
        f"On {repositories} public repositories that we had not used for tuning, {true} of {found} findings\n"
        f"({true / found:.0%}) were correct. "
        f"These repositories contain {files:,} files that use PyTorch: one false alarm per {files / false:.0f} files."
    )


def page() -> str:
    lines = []
    for one in reviews():
        low, high = interval(one.true, one.findings)
        rate = f"{1000 * one.false / one.files:.1f}" if one.files else ""
        useful = "" if one.useful is None else f"{one.useful / one.findings:.0%}"
        cells = (one.name, one.date, one.repositories, one.files or "", one.findings, f"{one.true / one.findings:.0%}")
        lines.append("| " + " | ".join(map(str, (*cells, f"{low:.0%} to {high:.0%}", useful, rate))) + " |")
    return HOW.format(
        latest=LATEST, sentence=sentence(), chart="assets/precision.svg", rows="\n".join(lines), rules=rules()
    )


def rules(most: int = 10) -> str:
    """The rules with the most false findings, as rows of a table."""
    counts: dict[str, Counter[str]] = {}
    for row in rows("findings"):
        counts.setdefault(row["rule"], Counter())[row["verdict"]] += int(row["count"])
    single = {rule: count for rule, count in counts.items() if re.fullmatch(r"TL\d{3}", rule) and rule != "TL802"}
    worst = sorted(single.items(), key=lambda item: (-item[1]["false"], item[0]))[:most]
    names = {meta.code: meta.name for meta in registry.metas()}
    lines = []
    for rule, count in worst:
        true = sum(count[verdict] for verdict in ("useful", "copy", "not useful", "true"))
        lines.append(f"| {rule} `{names[rule]}` | {true} | {count['false']} | {true / (true + count['false']):.0%} |")
    return "\n".join(lines)


def chart(width: int = 760, height: int = 260) -> str:
    """The share of true findings by review, with intervals, as an SVG that follows the reader's colours."""
    left, top, right, bottom = 44, 14, 12, 34
    all_reviews = reviews()
    step = (width - left - right) / len(all_reviews)

    def y(share: float) -> float:
        return top + (1 - max(share, 0.5)) / 0.5 * (height - top - bottom)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Findings that were true, in percent, by review</title>",
        "<style>text{font:12px sans-serif;fill:#444}line{stroke:#ccc}.i{stroke:#888;stroke-width:2}circle{fill:#b3400f}"
        "@media(prefers-color-scheme:dark){text{fill:#ccc}line{stroke:#444}.i{stroke:#999}circle{fill:#ff9e6b}}</style>",
    ]
    for percent in range(50, 101, 10):
        level = y(percent / 100)
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{level:.1f}" y2="{level:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{level + 4:.1f}" text-anchor="end">{percent} %</text>')
    for index, one in enumerate(all_reviews):
        x = left + step * (index + 0.5)
        low, high = interval(one.true, one.findings)
        parts.append(f'<line class="i" x1="{x:.1f}" x2="{x:.1f}" y1="{y(low):.1f}" y2="{y(high):.1f}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y(one.true / one.findings):.1f}" r="4"/>')
        if index % 5 == 0 or index == len(all_reviews) - 1:
            parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{one.name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def test_page_and_chart_are_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python tests/test_precision.py"
    assert CHART.read_text("utf-8") == chart(), "run: python tests/test_precision.py"


def test_readme_quotes_the_reviews() -> None:
    match = SENTENCE.search(README.read_text("utf-8"))
    assert match and sentence() in match[1], "run: python tests/test_precision.py"


def test_reviews_are_consistent() -> None:
    for one in reviews():
        assert 0 <= one.false <= one.findings, one
        assert one.useful is None or one.useful <= one.true, one
    assert {row["verdict"] for row in rows("findings")} <= VERDICTS


def test_missed_bugs_are_of_reviewed_repositories() -> None:
    reviewed = {row["repository"] for row in rows("repositories")}
    missed = rows("missed")
    assert missed
    for row in missed:
        assert row["repository"] in reviewed, row
        assert row["file"], row
        assert row["bug"], row


def test_no_repository_is_reviewed_twice_in_one_review() -> None:
    seen = Counter((row["review"], row["repository"].lower()) for row in rows("repositories"))
    assert [key for key, count in seen.items() if count > 1] == []


@pytest.mark.parametrize(("true", "of", "low", "high"), [(92, 114, 0.73, 0.87), (72, 74, 0.91, 0.99)])
def test_intervals(true: int, of: int, low: float, high: float) -> None:
    assert tuple(round(end, 2) for end in interval(true, of)) == (low, high)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    CHART.write_text(chart(), "utf-8")
    text = README.read_text("utf-8")
    README.write_text(SENTENCE.sub(f"<!-- precision -->\n{sentence()}\n<!-- /precision -->", text), "utf-8")
