"""The cost of linting one small file, as a hook does at each commit: `python tests/benchmarks/start.py`.

Prints a Markdown table of commands in turn, for as many rounds as `--rounds` says: Python with click alone, torchlint
on `x = 1`, on training files of about 250 lines without findings, one of which is from stable-baselines3, and on one
with findings. Each is linted without a cache, and once more with what an earlier run has kept. `--write` puts the table
into docs/guides/speed.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import corpus, costs, training
from tests.benchmarks.costs import Command

LINES = 250
PIN, REAL = "stable-baselines3==2.9.2", "stable_baselines3/td3/td3.py"
CLICK, LEAST, CLEAN, BAD = "import click", "x = 1", f"{LINES} lines, clean", f"{LINES} lines, findings"
CACHED = "{}, cached"


def commands(folder: Path, program: Sequence[str], real: Path | None = None) -> dict[str, Command]:
    """The commands that are compared, on files in an empty folder; `program` is what starts torchlint."""
    texts = {LEAST: "x = 1\n", CLEAN: training.file(LINES), BAD: training.file(LINES) + training.BUG}
    if real is not None:
        texts[f"`{real.name}`, clean"] = real.read_text("utf-8")
    found = {CLICK: Command([sys.executable, "-c", CLICK], folder)}
    for number, (name, text) in enumerate(texts.items()):
        (folder / f"{number}.py").write_text(text, "utf-8")
        for shown, option in ((name, ["--no-cache"]), (CACHED.format(name), ["--cache-dir", str(folder / "kept")])):
            found[shown] = Command([*program, "check", "--isolated", *option, f"{number}.py"], folder)
    return found


def table(rounds: int, program: Sequence[str], real: Path | None = None) -> str:
    """A row for each command; the cache is filled before."""
    with tempfile.TemporaryDirectory() as folder:
        compared = commands(Path(folder).resolve(), program, real)
        for command in compared.values():
            costs.run(command)
        return costs.costs_table("command", costs.side_by_side(compared, rounds), (CLICK,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=corpus.CACHE, help="where to fetch the package to")
    parser.add_argument("--made", action="store_true", help="measure the files that are made only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", help="the torchlint to measure; by default the one of this Python")
    parser.add_argument("--write", action="store_true", help="write the table into docs/guides/speed.md")
    options = parser.parse_args()
    program = [options.program] if options.program else [sys.executable, "-m", "torchlint"]
    try:
        tree = None if options.made else corpus.fetched(options.cache, [PIN])
    except corpus.Unavailable as error:
        sys.exit(str(error))
    real = next(tree.glob(f"*/{REAL}")) if tree is not None else None
    text = table(options.rounds, program, real)
    print(text, end="")
    if options.write:
        costs.write(costs.PAGE, "start", text)


if __name__ == "__main__":
    main()
