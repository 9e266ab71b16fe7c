"""The cost of a command in CPU time, wall time and memory; commands side by side; costs as Markdown tables."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MISSING = "-"
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "speed.md"
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts peak memory."""


class Failed(Exception):
    """A command ended otherwise than it should; the message holds the end of what it said."""


@dataclass(frozen=True)
class Command:
    """A command line, the folder it runs in, and the exit codes that are no failure."""

    line: Sequence[str | Path]
    cwd: Path
    codes: frozenset[int] = frozenset({0, 1})
    prints_cost: bool = False
    """Whether it prints the CPU seconds of its work, without those of its own start."""


@dataclass(frozen=True)
class Cost:
    """Seconds of all processes of a command, its children included, and the bytes of the largest one of them.

    The system counts in what this process held when it started them (about 30 MB): there is no smaller peak.
    """

    cpu: float
    wall: float
    peak: float
    work: float = 0.0
    """CPU seconds without the start, of a command that prints them."""


def run(command: Command) -> Cost:
    """Run a command to its end; raises `Failed`."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command.line,
            cwd=command.cwd,
            stdout=output if command.prints_cost else subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in command.codes:
            raise Failed(f"exit code {process.returncode}: {command.line[0]}\n{_end_of(errors)}")
        work = float(_end_of(output)) if command.prints_cost else 0.0
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * _PEAK_UNIT, work)


def _end_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")[-2000:]


def side_by_side(
    commands: Mapping[str, Command], rounds: int, say: Callable[[str], object] = lambda text: None
) -> dict[str, Cost]:
    """The medians of so many rounds, in each of which every command runs once: a slow moment hits all."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(1, rounds + 1):
        for name, command in commands.items():
            cost = run(command)
            say(f"round {number} of {rounds}: {name}: CPU {cost.cpu:.2f} s, wall {cost.wall:.2f} s")
            costs[name].append(cost)
    return {name: median(several) for name, several in costs.items()}


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(
        cpu=statistics.median(cost.cpu for cost in costs),
        wall=statistics.median(cost.wall for cost in costs),
        peak=statistics.median(cost.peak for cost in costs),
        work=statistics.median(cost.work for cost in costs),
    )


# -- Markdown -------------------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns, but for the first, hold numbers."""
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, rule, *rows))


def costs_table(title: str, costs: Mapping[str, Cost], references: Sequence[str]) -> str:
    """A row for each command, and beside its costs how many times those of the references they are."""
    known = [name for name in references if name in costs]
    heads = [title, "CPU s", "wall s", "peak MB"]
    heads += [f"{kind} : {name}" for name in known for kind in ("CPU", "wall")]
    return table(heads, [_row(name, cost, [costs[other] for other in known]) for name, cost in costs.items()])


def _row(name: str, cost: Cost, references: Iterable[Cost]) -> list[str]:
    ratios = [text for other in references for text in (ratio(cost.cpu, other.cpu), ratio(cost.wall, other.wall))]
    return [name, seconds(cost.cpu), seconds(cost.wall), megabytes(cost.peak), *ratios]


def seconds(value: float) -> str:
    """Three digits that count."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f}"


def ratio(value: float, reference: float) -> str:
    """How many times the reference; a small part with one digit that counts."""
    if not reference:
        return MISSING
    times = value / reference
    return seconds(times) if times >= 0.095 else f"{times:.1g}"


def paragraph(*sentences: str) -> str:
    """Text in lines of the width that the guides have."""
    return "\n".join(textwrap.wrap(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False)) + "\n"


def write(page: Path, name: str, text: str) -> None:
    """Replace the part of a page that stands between the markers of a name."""
    marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.S)
    replaced, number = marked.subn(lambda _: text, page.read_text("utf-8"))
    if number != 1:
        sys.exit(f"{page.name} needs one `<!-- {name} -->` and one `<!-- /{name} -->`, each on a line of its own")
    page.write_text(replaced, "utf-8")
