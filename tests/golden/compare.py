"""The model and the findings of torchlint for a folder, compared with an earlier state.

`compare.py traces` prints a digest of the trace of each file that torchlint looks into, `compare.py findings` every
finding of every rule in all files. FOLDER is by default the pinned packages of `tests/benchmarks/corpus.py`, which are
fetched once.

    python tests/golden/compare.py findings ~/code --write before.txt     # then change something
    python tests/golden/compare.py findings ~/code --against before.txt
    python tests/golden/compare.py traces --against tests/golden/corpus.txt
    python tests/golden/compare.py traces --full before                   # to see what a digest cannot tell
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.benchmarks import corpus
from tests.golden import traces
from torchlint import Rule, lint, select
from torchlint.engine import registry
from torchlint.engine.gate import by_words
from torchlint.engine.rule_table import loaded
from torchlint.files.source import SourceError, SourceFile
from torchlint.outputs.places import shown_place
from torchlint.trace import trace

SUFFIXES = (".py", ".ipynb")
_CHUNK = 16


@cache
def default_rules() -> tuple[type[Rule], ...]:
    return tuple(map(loaded, select().rules))


def digest_of(path: Path, folder: Path, full: Path | None) -> list[str]:
    """The digest and the name of a file that a default rule looks into; `full` is where its trace goes."""
    try:
        source = traces.read(path, folder)
        if not by_words(default_rules(), source.code):
            return []
        found = trace(source)
    except Exception as error:  # a crash is to be seen among the digests, with its file
        return [f"{type(error).__name__:<{traces.DIGITS}}  {path.relative_to(folder).as_posix()}"]
    if full is not None:
        copy = full / f"{source.path}.json"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(found.json() + "\n", "utf-8")
    return [f"{traces.digest(found)}  {source.path}"]


def findings_in(path: Path, folder: Path) -> list[str]:
    """`path:line:column: code name: message` of each finding of any rule."""
    try:
        source = traces.read(path, folder)
    except (SourceError, OSError):
        source = SourceFile(path.relative_to(folder).as_posix(), b"\0")
    found = lint(source, registry.Selection(registry.rules()))
    return [f"{shown_place(source, item.span.start)}: {item.code} {item.name}: {item.message}" for item in found]


def lines_of(work: Callable[[Path], list[str]], files: Iterable[Path], jobs: int) -> list[str]:
    """The lines for all files, in their order."""
    if jobs == 1:
        return [line for file in files for line in work(file)]
    with ProcessPoolExecutor(jobs) as executor:
        return list(chain.from_iterable(executor.map(work, files, chunksize=_CHUNK)))


def compared(before: list[str], after: list[str], what: str) -> tuple[str, int]:
    """The differences, and the exit code."""
    changes = traces.difference(before, after)
    summary = f"{len(changes):,} lines differ" if changes else f"{len(after):,} {what}, all equal"
    return "\n".join([*changes, summary]), 1 if changes else 0


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    folder = (options.folder or corpus.fetched(options.cache, say=lambda text: print(text, file=sys.stderr))).resolve()
    files = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    work = partial(findings_in, folder=folder)
    if options.what == "traces":
        work = partial(digest_of, folder=folder, full=options.full)
    lines = lines_of(work, files, options.jobs)
    if options.write:
        options.write.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    if options.against:
        text, code = compared(
            options.against.read_text("utf-8").splitlines(), lines, f"{options.what} of {len(files):,} files"
        )
        print(text)
        return code
    if not options.write:
        print("\n".join(lines))
    print(f"{len(lines):,} {options.what} in {len(files):,} files", file=sys.stderr)
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torchlint-benchmarks"
    parser.add_argument("what", choices=["traces", "findings"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what --write wrote; 1 if it differs")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the lines to a file")
    parser.add_argument("--full", type=Path, metavar="FOLDER", help="write whole traces as JSON below a folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--cache", type=Path, default=default, help="where packages are fetched to")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
