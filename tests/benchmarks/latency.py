"""From keystroke to diagnostics: `python tests/benchmarks/latency.py` prints milliseconds, median and worst.

A training file of 1,000 lines is open in an editor; 100 characters are typed into it one by one, and each time the
diagnostics of that version are waited for. With `--lines N` the file has another length.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import training
from tests.server.editor import Editor, at

EDITS = 100
GOAL = 150.0


def latencies(text: str, debounce: int) -> list[float]:
    """Milliseconds from each of the edits to its diagnostics."""
    measured = []
    with tempfile.TemporaryDirectory() as folder, Editor(Path(folder)) as editor:
        editor.start({"debounce": debounce})
        uri = editor.open("train.py", text + "\n# ")
        assert editor.diagnostics(uri)
        end = text.count("\n") + 1
        for version in range(2, EDITS + 2):
            start = time.perf_counter()
            editor.change(uri, version, "x", at(end, version))
            editor.diagnostics(uri, version)
            measured.append((time.perf_counter() - start) * 1000)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1000)
    text = training.file(parser.parse_args().lines) + training.BUG
    print(f"{text.count(chr(10)):,} lines, {EDITS} edits")
    for name, debounce in (("with the pause of 50 ms", 50), ("without a pause", 0)):
        found = latencies(text, debounce)
        print(f"{name:<24} median {statistics.median(found):6.1f} ms   worst {max(found):6.1f} ms")


if __name__ == "__main__":
    main()
