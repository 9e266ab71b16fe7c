"""What it costs to lint one small file, as a hook does at each commit: `python tests/benchmarks/start.py`.

Four commands in turn, for as many rounds as `--rounds` says: Python with click alone, torchlint on `x = 1`, on a
training file of 250 lines without findings, and on the same with one. Nothing is cached.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import costs, training
from tests.benchmarks.costs import Command

LINES = 250
CLICK, LEAST, CLEAN, BAD = "import click", "x = 1", f"{LINES} lines, clean", f"{LINES} lines, findings"


def commands(folder: Path, program: Sequence[str]) -> dict[str, Command]:
    """The commands that are compared, on files in an empty folder; `program` is what starts torchlint."""
    files = {LEAST: "x = 1\n", CLEAN: training.file(LINES), BAD: training.file(LINES) + training.BUG}
    for number, text in enumerate(files.values()):
        (folder / f"{number}.py").write_text(text, "utf-8")
    options = ("check", "--isolated", "--no-cache")
    linting = {name: [*program, *options, f"{number}.py"] for number, name in enumerate(files)}
    return {name: Command(line, folder) for name, line in {CLICK: [sys.executable, "-c", CLICK], **linting}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", help="the torchlint to measure; by default the one of this Python")
    options = parser.parse_args()
    program = [options.program] if options.program else [sys.executable, "-m", "torchlint"]
    with tempfile.TemporaryDirectory() as folder:
        measured = costs.side_by_side(commands(Path(folder), program), options.rounds)
    print(costs.costs_table("Command", measured, (CLICK, LEAST)), end="")


if __name__ == "__main__":
    main()
