"""The fixes of `check`: write them, or show them as a diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torchlint.cli.errors import complain
from torchlint.colours import Paint, painter
from torchlint.files.line_diff import unified
from torchlint.files.source import SourceFile
from torchlint.finding import Safety
from torchlint.outputs import counted
from torchlint.outputs.escaping import printable
from torchlint.results import Outcome

_ROLES = {"---": "title", "+++": "title", "@@": "dim", "-": "removed", "+": "added"}


def write_fixes(outcome: Outcome) -> Outcome:
    """Write the fixed files. A file that cannot be written is reported and keeps its findings."""
    from torchlint.files.atomic_write import WriteError, write

    files, unwritten = [], []
    for file in outcome.files:
        try:
            if file.before is not None:
                write(Path(file.source.path), file.before.source.data, file.source.data)
            files.append(file)
        except WriteError as error:
            complain(str(error))
            files += [file.before] if file.before is not None else []
            unwritten.append(file.source.path)
    return replace(outcome, files=tuple(files), unwritten=tuple(unwritten))


def diff(outcome: Outcome, colour: bool, *, exact: bool = True) -> str:
    """The changes of the fixes, as a unified diff for `patch` and Git.

    For people, the diff contains no terminal commands; `exact` is for programs.
    """
    paint = painter(colour)
    lines = (line for file in outcome.files if file.before for line in _changes(file.before.source, file.source))
    shown = lines if exact else (printable(line.removesuffix("\r"), keep="\t") for line in lines)
    return "".join(f"{_painted(line, paint)}\n" for line in shown)


def _changes(before: SourceFile, after: SourceFile) -> Iterator[str]:
    for line in unified(_lines(before), _lines(after), printable(before.path)):
        yield line.removesuffix("\0")
        if line.endswith("\0"):
            yield "\\ No newline at end of file"


def _lines(source: SourceFile) -> list[str]:
    """The lines of the file. A NUL, which no source contains, marks a last line without a newline."""
    *lines, last = source.data.decode(source.encoding.removesuffix("-sig")).split("\n")
    return [*lines, f"{last}\0"] if last else lines


def _painted(line: str, paint: Paint) -> str:
    role = next((role for start, role in _ROLES.items() if line.startswith(start)), None)
    return paint(line, role) if role is not None else line


def summary(outcome: Outcome, verb: str) -> str:
    """`Fixed 3 findings in 2 files: 2 missing-zero-grad, 1 empty-cache-in-loop.`"""
    changed = [file for file in outcome.files if file.before is not None]
    counts = Counter(finding.name for file in changed for finding in file.applied)
    if not counts:
        return f"{verb} no findings."
    rules = ", ".join(f"{number:,} {name}" for name, number in counts.most_common())
    return f"{verb} {counted(sum(counts.values()), 'finding')} in {counted(len(changed), 'file')}: {rules}."


def listing(outcome: Outcome) -> str:
    """The fixes of each file, by rule: `train.py: 2 missing-zero-grad`, a line for each file."""
    lines = []
    for file in outcome.files:
        counts = Counter(finding.name for finding in file.applied) if file.before is not None else Counter()
        if counts:
            rules = ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))
            lines.append(f"  {printable(file.source.path)}: {rules}")
    return "\n".join(lines)


def unsafe_fixes(outcome: Outcome) -> int:
    """How many findings have an unsafe fix."""
    return sum(finding.fix is not None and finding.fix.safety is Safety.UNSAFE for finding in outcome.findings)
