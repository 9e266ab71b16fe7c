"""The cost of torchlint, ruff, ty, TorchFix and LibCST's bare parse on the same files, measured in one run.

`python tests/benchmarks/speed.py` fetches pinned packages once, runs everything in turn for five rounds, and prints
Markdown tables of the medians; `--write` puts them into docs/guides/speed.md, except for that of the rules.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import corpus, costs, linters
from tests.benchmarks.costs import Command

PARTS = ("torchlint", "ruff", "ty", "parse", "torchfix", "growth", "rules")
COPIES = (1, 10)
LINES = (1_000, 5_000, 20_000)

TORCHLINT, WARM, RUFF, TY = "torchlint", "torchlint, second run", "ruff", "ty"
TORCHFIX, PARSE, LINT = "TorchFix", "bare parse", "torchlint, one process"


@dataclass(frozen=True)
class Benchmark:
    """A measurement on a tree; `work` is a folder for copies and caches that is empty at first."""

    tree: Path
    name: str
    work: Path
    cache: Path
    parts: frozenset[str] = frozenset(PARTS)
    rounds: int = 5
    lines: tuple[int, ...] = LINES
    say: Callable[[str], object] = lambda text: None

    def sections(self) -> dict[str, str]:
        """Markdown by what it is about; a part that was not asked for, or cannot be had, is missing."""
        self.say("looking which files are parsed")
        files = corpus.python_files(self.tree)
        triage = linters.triage(files, self.work)
        found = {
            "tree": self._whole_tree(triage),
            "subset": self._subset(files) if "torchfix" in self.parts else "",
            "files": self._growth_by_files(files) if "growth" in self.parts else "",
            "lines": self._growth_by_lines() if "growth" in self.parts else "",
            "rules": rules_table(triage) if "rules" in self.parts else "",
        }
        return {about: text for about, text in found.items() if text}

    def _whole_tree(self, triage: linters.Triage) -> str:
        commands = self._linters(self.tree, warm=True)
        parsed = triage.paths
        if "parse" in self.parts and parsed:
            commands[PARSE] = linters.single("parse", parsed, self.work)
            commands[LINT] = linters.single("lint", parsed, self.work)
        if not commands:
            return ""
        lines = sum(lines for _, lines, _ in triage.wanted)
        title = f"{triage.files:,} files, {triage.lines:,} lines"
        table = costs.costs_table(title, self._measured(title, commands), (RUFF, TY, PARSE))
        notes = [f"The files are from {self.name}."]
        notes.append(f"torchlint parses {len(parsed):,} of these files, with {lines:,} lines.")
        if PARSE in commands:
            notes.append(f"*{PARSE}* is LibCST alone on the same {len(parsed):,} files,")
            notes.append("with the garbage collector paused.")
            notes.append(f"*{LINT}* is torchlint on the same files.")
        if not linters.has_cache():
            notes.append("This torchlint keeps no cache: a second run costs the same.")
        return f"{costs.paragraph(*notes)}\n{table}"

    def _linters(self, tree: Path, *, warm: bool = False) -> dict[str, Command]:
        """torchlint, cold and warm, ruff and ty, as far as they are wanted."""
        commands = {}
        if "torchlint" in self.parts:
            commands[TORCHLINT] = linters.torchlint(tree, self.work)
            if warm and linters.has_cache():
                commands[WARM] = linters.torchlint(tree, self.work, cached=True)
                self.say("filling the cache")
                costs.run(commands[WARM])
        for name, command in ((RUFF, linters.ruff), (TY, linters.ty)):
            if name in self.parts:
                if other := command(tree, self.work):
                    commands[name] = other
                else:
                    self.say(f"{name} is left out, it is not installed")
        return commands

    def _subset(self, files: Iterable[Path]) -> str:
        """Beside TorchFix, which takes long: on the files that call a `backward`."""
        training = corpus.training(files)
        if not training:
            return ""
        folder = corpus.copied(training, self.tree, self.work / "training")
        torchfix = linters.torchfix(folder, self.work, self.cache, self.say)
        if torchfix is None:
            return ""
        title = f"the {len(training):,} files with `{corpus.TRAINING.decode()}`"
        try:
            measured = self._measured(title, {**self._linters(folder), TORCHFIX: torchfix})
        except costs.Failed as error:
            self.say(f"this table is left out: {error}")
            return ""
        note = f"{TORCHFIX} {linters.TORCHFIX.partition('==')[2]} is slow, so we compare it on fewer files."
        return f"{note}\n\n" + costs.costs_table(title, measured, (TORCHFIX,))

    def _growth_by_files(self, files: list[Path]) -> str:
        """A tenth of the files, and ten copies of it."""
        sample = corpus.sample(files)
        commands = {}
        for copies in COPIES:
            folder = self.work / f"copies-{copies}"
            for number in range(copies):
                corpus.copied(sample, self.tree, folder / f"copy{number}")
            commands[f"{copies * len(sample):,} files"] = linters.torchlint(folder, self.work)
        measured = self._measured("more files", commands)
        reference = next(iter(commands))
        sizes = f"every {corpus.SAMPLE}th file, and {COPIES[-1]} copies of these files"
        note = f"How the time grows with the number of files: {sizes}."
        return f"{note}\n\n" + costs.costs_table("torchlint", measured, (reference,))

    def _growth_by_lines(self) -> str:
        """Longer files, beside their bare parse; without the start of Python, which would hide the growth."""
        commands: dict[str, Command] = {}
        titles = []
        for text in map(corpus.long_file, self.lines):
            titles.append(f"{text.count(chr(10)):,} lines")
            file = self.work / f"training_{len(titles)}.py"
            file.write_text(text, "utf-8")
            for kind in ("parse", "lint"):
                commands[f"{kind} of {titles[-1]}"] = linters.single(kind, [file], self.work)
        measured = self._measured("longer files", commands)
        rows = []
        for title in titles:
            parse, lint = (measured[f"{kind} of {title}"] for kind in ("parse", "lint"))
            spent = [costs.seconds(parse.work), costs.seconds(lint.work), costs.ratio(lint.work, parse.work)]
            rows.append([title, *spent, *map(costs.megabytes, (parse.peak, lint.peak))])
        heads = ["one training file", "bare parse, CPU s", "torchlint, CPU s", "ratio", "bare parse, peak MB"]
        heads.append("torchlint, peak MB")
        note = costs.paragraph(
            "How the time grows with the length of a file:",
            "one file that repeats the fixtures' functions under new names.",
            "Python's startup time is not included.",
        )
        return f"{note}\n" + costs.table(heads, rows)

    def _measured(self, about: str, commands: dict[str, Command]) -> dict[str, costs.Cost]:
        self.say(f"{about}:")
        return costs.side_by_side(commands, self.rounds, lambda text: self.say(f"  {text}"))


def rules_table(triage: linters.Triage) -> str:
    """How many files and lines each default rule has parsed, and how many it alone."""
    rows = []
    for rule in triage.rules:
        wanted = [lines for _, lines, names in triage.wanted if rule in names]
        alone = [lines for _, lines, names in triage.wanted if names == (rule,)]
        rows.append([rule, *(f"{number:,}" for number in (len(wanted), sum(wanted), len(alone), sum(alone)))])
    total = sum(lines for _, lines, _ in triage.wanted)
    rows.append(["any of them", f"{len(triage.wanted):,}", f"{total:,}", costs.MISSING, costs.MISSING])
    return costs.table(["rule", "files it wants", "lines", "files it alone wants", "lines"], rows)


# -- the command ----------------------------------------------------------------------------------------


def main() -> None:
    arguments = parsed(sys.argv[1:])
    tree = arguments.tree
    try:
        if tree is None:
            tree = corpus.fetched(arguments.cache, say=say)
        name = ", ".join(corpus.PINS).replace("==", " ") if arguments.tree is None else tree.name
        with tempfile.TemporaryDirectory() as work:
            benchmark = Benchmark(
                tree.resolve(),
                name,
                Path(work).resolve(),
                arguments.cache,
                frozenset(arguments.only),
                arguments.rounds,
                say=say,
            )
            sections = benchmark.sections()
    except (corpus.Unavailable, costs.Failed) as error:
        sys.exit(str(error))
    print("\n".join([heading(arguments.only, arguments.rounds), *sections.values()]))
    if arguments.write:
        sections.pop("rules", None)
        costs.write(costs.PAGE, "speed", "\n".join([heading(arguments.only, arguments.rounds), *sections.values()]))


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cache", type=lambda text: Path(text).resolve(), default=corpus.CACHE, help="where to fetch to"
    )
    parser.add_argument("--tree", type=Path, help="measure on this folder instead of the pinned packages")
    parser.add_argument("--only", type=parts, default=PARTS, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/guides/speed.md")
    return parser.parse_args(arguments)


def parts(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if unknown := set(chosen) - set(PARTS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(PARTS)}")
    return chosen


def heading(only: tuple[str, ...], rounds: int) -> str:
    """How the numbers came about."""
    command = "python tests/benchmarks/speed.py --write" + (f" --only {','.join(only)}" if only != PARTS else "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    how = f"medians of {rounds} rounds" if rounds > 1 else "one round"
    return costs.paragraph(
        f"Measured with `{command}`: {how}, on {cores} cores, with {linters.versions()} and default rules.",
        "CPU is the total of all processes. Peak memory is that of the largest process.",
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
