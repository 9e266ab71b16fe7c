"""Paths -> what is wrong in the files below them, in path order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchlint import engine, registry
from torchlint.discovery import Target
from torchlint.fixes import Fixing, fix
from torchlint.outputs import LintedFile, Outcome
from torchlint.registry import Selection
from torchlint.source import SourceError, SourceFile

Progress = Callable[[int, int], None]
"""Called with the number of files done, and of all."""


@dataclass(frozen=True)
class Job:
    """All that is needed to lint one file, picklable."""

    path: Path
    selection: Selection
    problem: str = ""
    fixing: Fixing | None = None


def run(
    targets: Iterable[Target],
    progress: Progress = lambda done, total: None,
    fixing: Fixing | None = None,
) -> Outcome:
    """Lint all targets, in their order; raises `UnknownRule` before the first is read.

    With `fixing` the files are fixed too, but not written: their new form is in the outcome.
    """
    jobs = [Job(target.path, target.settings.selection(target.path), target.problem, fixing) for target in targets]
    files = []
    for done, linted in enumerate(_lint_all(jobs), 1):
        progress(done, len(jobs))
        if linted.findings or linted.before is not None:
            files.append(linted)
    return outcome_of(files, len(jobs))


def outcome_of(files: Iterable[LintedFile], total: int) -> Outcome:
    """The outcome of a run over `total` files, of which `files` are those with findings."""
    return Outcome(tuple(files), total, registry.metas())


def _lint_all(jobs: Iterable[Job]) -> Iterator[LintedFile]:
    """The results in the order of `jobs`."""
    return map(lint_file, jobs)


def lint_file(job: Job) -> LintedFile:
    """Read and lint one file; that it cannot be read is a finding. Never raises."""
    shown = str(job.path)
    try:
        if job.problem:
            raise SourceError(job.problem)
        source = SourceFile.read(job.path, shown)
    except SourceError as error:
        return _unreadable(shown, error.message)
    except OSError as error:
        return _unreadable(shown, error.strerror or str(error))
    return lint_source(source, job.selection, job.fixing)


def lint_source(source: SourceFile, selection: Selection, fixing: Fixing | None = None) -> LintedFile:
    """Lint, and fix, what has been read already."""
    if fixing is None:
        return LintedFile(source, tuple(engine.lint(source, selection)))
    fixed = fix(source, selection, unsafe=fixing.unsafe)
    before = LintedFile(source, fixed.before) if fixed.applied else None
    return LintedFile(fixed.source, fixed.findings, before, fixed.applied)


def _unreadable(shown: str, reason: str) -> LintedFile:
    return LintedFile(SourceFile(shown, b""), (engine.unreadable(shown, reason),))
