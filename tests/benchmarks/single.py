"""Work on files one after the other in this process, and nothing else, so that it can be measured.

usage: python tests/benchmarks/single.py parse|lint|triage LIST   (LIST is a file with a path on each line)

`parse` is LibCST's bare parse with the garbage collector paused, `lint` what torchlint does by default; both print
the CPU seconds that took, reading included. `triage` prints as JSON which default rules want which of the files.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import libcst as cst

from torchlint import SourceFile, lint, select
from torchlint.engine.gate import by_words
from torchlint.files.source import SourceError


def parse(paths: Iterable[Path]) -> None:
    gc.disable()
    for path in paths:
        try:
            cst.parse_module(SourceFile.read(path).text)
        except (SourceError, cst.ParserSyntaxError):
            continue


def lint_all(paths: Iterable[Path]) -> None:
    selection = select()
    for path in paths:
        lint(SourceFile.read(path), selection)


def triage(paths: Iterable[Path]) -> dict[str, object]:
    """The number of files and of their lines, and those that are parsed: path, lines, rules that want that."""
    rules = select().rules
    total, wanted = [0, 0], []
    for path in paths:
        try:
            source = SourceFile.read(path)
            code = source.code
        except (OSError, SourceError):
            continue
        lines = code.count(b"\n")
        total = [total[0] + 1, total[1] + lines]
        if names := [rule.rule_name() for rule in by_words(rules, code)]:
            wanted.append([str(path), lines, names])
    return {"rules": [rule.rule_name() for rule in rules], "files": total[0], "lines": total[1], "wanted": wanted}


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main(kind: str, listing: str) -> None:
    paths = [Path(line) for line in Path(listing).read_text("utf-8").splitlines()]
    if kind == "triage":
        print(json.dumps(triage(paths)))
    else:
        print(cpu(lambda: {"parse": parse, "lint": lint_all}[kind](paths)))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("parse", "lint", "triage"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
