"""Paths -> what is wrong in the files below them, in path order: here, in other processes, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.engine import registry
from torchlint.engine.registry import Selection
from torchlint.files.fingerprint import Stamp, digest_of, status_of
from torchlint.files.source import SourceError, SourceFile, Unread
from torchlint.files.sources import Module
from torchlint.project.discovery import Target
from torchlint.results import NO_TALLY, LintedFile, Outcome, Tally
from torchlint.run.process_pool import are_safe, processes_that_pay
from torchlint.syntax.gc_pause import collect_after, collector_paused

if TYPE_CHECKING:  # what a run in which nothing has changed does not need
    from concurrent.futures import Executor

    from torchlint.engine.fixer import Fixing
    from torchlint.files.first_party import Search
    from torchlint.run.cache import Cache
    from torchlint.run.scheduler import Crew

Progress = Callable[[int, int, float], None]
"""Called with the number of files done, and of all, and the share of bytes that is done of what had to be linted."""

_WINDOW_OF_OTHERS = 64
"""Chunks that are under way with an executor of unknown size."""


@dataclass(frozen=True)
class Means:
    """Resources of a run. None of them changes its findings."""

    jobs: int | None = 1
    """The number of processes; None: as many as help."""
    executor: Executor | None = None
    """Lints instead of processes of our own. It is sent the content of files, and needs no disk."""
    cache: Cache | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """All that is needed to lint one file, picklable."""

    path: Path
    selection: Selection
    problem: Unread | None = None
    fixing: Fixing | None = None
    stamped: bool = False
    """Whether it is of interest which content was linted."""
    source: SourceFile | None = None
    """The content, where it has been read already."""
    stamp: Stamp | None = None

    def read(self) -> Job:
        """With the content, or with the reason why there is none. Never raises."""
        if self.source is not None or self.problem is not None:
            return self
        try:
            before = status_of(self.path)
            source = SourceFile.read(self.path, str(self.path))
            unchanged = self.stamped and status_of(self.path) == before
        except OSError as error:
            return replace(self, problem=Unread.because_of(error))
        return replace(self, source=source, stamp=Stamp(before, digest_of(source.data)) if unchanged else None)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a job: None if there is nothing to report, as for most files; and the linted file."""

    linted: LintedFile | None
    stamp: Stamp | None = None
    tally: Tally = NO_TALLY
    imports: tuple[Module, ...] = ()


_Task = tuple[int, Job]
"""A job and its place in the order."""


def run(
    targets: Iterable[Target],
    progress: Progress = lambda done, total, share: None,
    fixing: Fixing | None = None,
    means: Means = Means(),
) -> Outcome:
    """Lint all targets, in their order; raises `UnknownRule` before the first is read, and `dispatch.Refused`.

    With `fixing` the files are fixed too, but not written: their new form is in the outcome.
    """
    targets = list(targets)
    found = [_known(target, fixing, means) for target in targets]
    with collector_paused():  # to read the rules makes much that stays
        left = [(index, _job(targets[index], fixing, means)) for index, known in enumerate(found) if known is None]
    counter = _Counter(progress, len(targets), {index: _size(job) for index, job in left})
    with closing(_lint_all(left, means, counter)) as results:
        for index, done in results:
            counter.count(index)
            found[index] = done
            _remember(targets[index], done, means)
    every = [done for done in found if done is not None]
    linted = [done.linted for done in every if done.linted]
    files = [file for file in linted if file.findings or file.before is not None]
    return outcome_of(files, len(targets), [done.tally for done in every], linted)


class _Counter:
    """How far a run is."""

    def __init__(self, progress: Progress, total: int, sizes: Mapping[int, int]) -> None:
        """`sizes` are those of the files that have to be linted, by their places in the order."""
        self.sizes = sizes
        self._progress = progress
        self._total = total
        self._files = total - len(sizes)
        self._done = 0
        self._bytes = max(sum(sizes.values()), 1)

    def count(self, index: int) -> None:
        self._files += 1
        self._done += self.sizes[index]
        self.tell()

    def tell(self) -> None:
        """Say it again, while nothing comes to its end, so that who watches sees that time passes."""
        self._progress(self._files, self._total, self._done / self._bytes)


def _known(target: Target, fixing: Fixing | None, means: Means) -> Done | None:
    """The result of an earlier run; files that may be fixed are linted again."""
    known = means.cache.find(target) if means.cache else None
    if known is None or (fixing and known.findings):
        return None
    return Done(known if known.findings or known.notices else None, tally=known.tally)


def _remember(target: Target, done: Done, means: Means) -> None:
    linted = done.linted
    if means.cache and done.stamp is not None and (linted is None or linted.before is None):
        findings, notices = (linted.findings, linted.notices) if linted else ((), ())
        means.cache.put(target, done.stamp, findings, done.tally, done.imports, notices)


def outcome_of(
    files: Iterable[LintedFile], total: int, tallies: Sequence[Tally], linted: Iterable[LintedFile] = ()
) -> Outcome:
    """The outcome of a run over `total` files, of which `files` are those with findings; `linted` may have notices."""
    users, unstable = sum(tally.uses_torch for tally in tallies), sum(tally.unstable for tally in tallies)
    noticed = tuple(file for file in linted if file.notices)
    return Outcome(tuple(files), total, registry.metas(), users, unstable, noticed=noticed)


def lint_file(job: Job) -> LintedFile:
    """Read and lint one file; that it cannot be read is a finding. Never raises."""
    job = job.read()
    if job.source is not None:
        return lint_source(job.source, job.selection, job.fixing, stamped=job.stamped)
    assert job.problem is not None, "what was read has either a source or a problem"
    return _unread(job, job.problem)


def lint_source(
    source: SourceFile, selection: Selection, fixing: Fixing | None = None, *, stamped: bool = False
) -> LintedFile:
    """Lint, and fix, what has been read already; `stamped` if it is of interest which modules were looked for."""
    if fixing is None:
        from torchlint.engine.examination import examine

        found = examine(source, selection)
        imports = _modules([found.search] if stamped and found.search is not None else [])
        findings = tuple(found.findings)
        return LintedFile(source, findings, tally=found.tally, imports=imports, notices=found.notices)
    from torchlint.engine.fixer import fix

    fixed = fix(source, selection, unsafe=fixing.unsafe)
    before = LintedFile(source, fixed.before, notices=fixed.notices_before) if fixed.applied else None
    imports = _modules(fixed.searches if stamped else [])
    tally = Tally(fixed.uses_torch)
    return LintedFile(fixed.source, fixed.findings, before, fixed.applied, tally, imports, fixed.notices)


def _modules(searches: Iterable[Search]) -> tuple[Module, ...]:
    """The modules that were looked for, each once."""
    return tuple(dict.fromkeys(module for search in searches for module in search.modules()))


def _job(target: Target, fixing: Fixing | None, means: Means) -> Job:
    selection = target.settings.selection(target.path)
    return Job(target.path, selection, target.problem, fixing, means.cache is not None)


def _unread(job: Job, problem: Unread) -> LintedFile:
    from torchlint.engine.examination import unread_finding

    shown = str(job.path)
    return LintedFile(SourceFile(shown, b""), (unread_finding(shown, problem),))


def _lint_all(tasks: Sequence[_Task], means: Means, counter: _Counter) -> Generator[tuple[int, Done], None, None]:
    """The results as they come: in the order of `tasks` in this process, or else in any order."""
    crew = _crew(tasks, means, sum(counter.sizes.values()))
    if crew is None:
        with collector_paused():
            for index, job in tasks:
                yield index, _lint(job)
        return
    from torchlint.run.scheduler import chunks, dispatched

    work = chunks(((task, counter.sizes[task[0]]) for task in tasks), crew.window)
    with closing(dispatched(work, crew, counter.tell)) as portions:
        for chunk, results in portions:
            yield from zip((index for index, _ in chunk), results, strict=True)


def _crew(tasks: Sequence[_Task], means: Means, size: int) -> Crew[_Task, Done] | None:
    """Who lints; None: this process."""
    if means.executor is not None:
        return _crew_of(means.executor)
    jobs = means.jobs
    if jobs is None:
        jobs = processes_that_pay(len(tasks), size)
    jobs = min(jobs, len(tasks))
    if jobs < 2 or not are_safe():
        return None
    import torchlint.engine.examination  # noqa: F401 - before the processes are copies of this one
    from torchlint.engine.rule_table import loaded
    from torchlint.run.process_pool import may_fork, processes
    from torchlint.run.scheduler import Crew

    if may_fork():
        for rule in registry.rules():  # once, not in each process
            loaded(rule)
    return Crew(
        start=lambda: processes(jobs),
        submit=lambda executor, chunk: executor.submit(_lint_each, [job for _, job in chunk]),
        here=_lint_here,
        alone=_lint_alone,
        window=3 * jobs,
    )


def _crew_of(executor: Executor) -> Crew[_Task, Done]:
    """An executor whose workers may be anywhere."""
    import pickle
    from contextlib import nullcontext

    from torchlint.run.cache.environment import environment
    from torchlint.run.scheduler import Crew

    expected = environment()
    return Crew(
        start=lambda: nullcontext(executor),
        submit=lambda executor, chunk: executor.submit(
            lint_shipped, expected, pickle.dumps([_shipped(job.read()) for _, job in chunk])
        ),
        here=_lint_here,
        alone=_lint_alone,
        window=_WINDOW_OF_OTHERS,
    )


def _shipped(job: Job) -> Job:
    """With all that is needed where there is no disk."""
    following = job.selection.following
    if following is None or job.source is None:
        return job
    try:
        code = job.source.code
    except SourceError:
        return job
    return replace(job, selection=replace(job.selection, following=following.shipped(str(job.path), code)))


def _size(job: Job) -> int:
    try:
        return job.path.stat().st_size
    except OSError:
        return 0


def _lint_each(jobs: Iterable[Job]) -> list[Done]:
    """For another process, which is not sent all that a source has computed."""
    results = [_lint(job) for job in jobs]
    return [replace(done, linted=done.linted and _bare(done.linted)) for done in results]


def _bare(linted: LintedFile) -> LintedFile:
    before = linted.before and _bare(linted.before)
    return replace(linted, source=replace(linted.source), before=before)


def lint_shipped(expected: Mapping[str, str], jobs: bytes) -> list[Done]:
    """Lint what another machine has sent; raises `Refused` if that one has another torchlint than this one."""
    import pickle

    from torchlint.run.cache.environment import difference, environment
    from torchlint.run.scheduler import Refused

    if differs := difference(expected, environment()):
        raise Refused(f"a worker has another torchlint: {differs}")
    return _lint_each(pickle.loads(jobs))


def _lint(job: Job) -> Done:
    job = job.read()
    linted = lint_file(job)
    collect_after(len(linted.source.data))
    is_news = linted.findings or linted.notices or linted.before is not None
    return Done(linted if is_news else None, job.stamp, linted.tally, linted.imports)


def _lint_here(tasks: Sequence[_Task]) -> list[Done]:
    return [_lint(job) for _, job in tasks]


def _lint_alone(tasks: Sequence[_Task]) -> list[Done]:
    """In a process that does nothing else: if that dies too, the file is named, and the result is incomplete."""
    from torchlint.run.process_pool import NoProcesses

    done: list[Done] = []
    while left := tasks[len(done) :]:
        try:
            done += _lint_until_death(left)
        except NoProcesses as error:
            reason = f"the process that linted this file died, and no other can start: {error}"
            problem = Unread(reason, is_of_machine=True)
            done += [Done(_unread(job, problem)) for _, job in left]
    return done


def _lint_until_death(tasks: Sequence[_Task]) -> Iterator[Done]:
    """Lint tasks in one process until a task kills it; raises `NoProcesses`."""
    from concurrent.futures import BrokenExecutor

    from torchlint.run.process_pool import processes

    with processes(1) as executor:
        for _, job in tasks:
            try:
                yield from executor.submit(_lint_each, [job]).result()
            except BrokenExecutor:
                reason = "the process that linted this file died twice, perhaps because memory ran out"
                yield Done(_unread(job, Unread(reason, is_of_machine=True)))
                return
