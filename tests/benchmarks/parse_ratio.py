"""CPU time of linting files against that of LibCST's bare parse of the same files, collector paused.

usage: python tests/benchmarks/parse_ratio.py PATH ...   (files, or folders whose *.py files are taken)

Only files that must be parsed count: those for which the triage of at least one default rule says yes.
Both are measured file by file in one process, in turn, so that a slow moment of the machine hits both.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import libcst as cst

from torchlint import Selection, SourceFile, lint, select
from torchlint.engine import looking
from torchlint.source import SourceError

ROUNDS = 5


def files(arguments: list[str]) -> Iterator[Path]:
    for argument in arguments:
        path = Path(argument)
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def to_parse(paths: Iterator[Path], selection: Selection) -> Iterator[SourceFile]:
    for path in paths:
        try:
            source = SourceFile.read(path)
            cst.parse_module(source.text)
        except (OSError, SourceError, cst.ParserSyntaxError):
            continue
        if looking(selection.rules, source.code):
            yield source


def cpu(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    spent = time.process_time() - start
    gc.enable()
    return spent


def measure(source: SourceFile, selection: Selection) -> tuple[float, float]:
    fresh = SourceFile(source.path, source.data)
    return cpu(lambda: cst.parse_module(source.text)), cpu(lambda: lint(fresh, selection))


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.exit(__doc__)
    selection = select()
    sources = list(to_parse(files(arguments), selection))
    ratios = []
    for number in range(ROUNDS):
        pairs = [measure(source, selection) for source in sources]
        parse, whole = (sum(times) for times in zip(*pairs, strict=True))
        ratios.append(whole / parse)
        print(
            f"round {number + 1}: {len(sources)} files, parse {parse:.2f} s, lint {whole:.2f} s, ratio {ratios[-1]:.2f}"
        )
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
