"""Chunks of work -> executors, a few at a time; what an executor loses is done again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torchlint.run.process_pool import NoProcesses

Task = TypeVar("Task")
Result = TypeVar("Result")

_LEAST = 16 * 1024
_MOST = 4 * 1024 * 1024
"""The weight of a chunk: a smaller one is not worth sending, a larger one stops visible progress."""
_OWN_CHUNK = 128 * 1024
"""A task of this weight is not left for the end."""
_EACH = 1_000
"""The weight of a task besides its bytes."""
_INTERVAL = 0.5
"""Seconds until the user sees that a run waits."""


class Refused(Exception):
    """The executor cannot do this work, now or ever: the message is for the user."""


@dataclass(frozen=True)
class Crew(Generic[Task, Result]):
    """Who works, and how much of it is under way at a time."""

    start: Callable[[], AbstractContextManager[Executor]]
    submit: Callable[[Executor, Sequence[Task]], Future[list[Result]]]
    here: Callable[[Sequence[Task]], list[Result]]
    """Does a chunk in this process, where no others can start."""
    alone: Callable[[Sequence[Task]], list[Result]]
    """Does a chunk that was lost, one by one, so that what kills a worker is found."""
    window: int


def chunks(tasks: Iterable[tuple[Task, int]], portions: int) -> Iterator[list[Task]]:
    """Tasks with their sizes -> at least so many chunks, if there are so many tasks: large tasks, then neighbours.

    Neighbours import the same, so what a process has read for one serves the next. Each chunk is a share of what is
    left, so that all processes end together.
    """
    weighed = [(task, size + _EACH) for task, size in tasks]
    yield from ([task] for task, weight in sorted(weighed, key=lambda item: -item[1]) if weight >= _OWN_CHUNK)
    others = [item for item in weighed if item[1] < _OWN_CHUNK]
    left = sum(weight for _, weight in others)
    least = min(_LEAST, left // portions)
    chunk: list[Task] = []
    total = 0
    for task, weight in others:
        if chunk and total + weight > max(least, min(_MOST, left // portions)):
            yield chunk
            left -= total
            chunk, total = [], 0
        chunk.append(task)
        total += weight
    if chunk:
        yield chunk


def dispatched(
    work: Iterable[Sequence[Task]], crew: Crew[Task, Result], waited: Callable[[], None] = lambda: None
) -> Generator[tuple[Sequence[Task], list[Result]], None, None]:
    """Each chunk with its results, as they come. `waited` is called while there are none. Raises `Refused`."""
    waiting = deque(work)
    while waiting:
        shift = _Shift(crew, waiting, waited)
        try:
            with crew.start() as executor:
                yield from shift.results(executor)
        except NoProcesses:
            break
        for chunk in shift.lost:
            yield chunk, crew.alone(chunk)
    for chunk in waiting:
        yield chunk, crew.here(chunk)


@dataclass
class _Shift(Generic[Task, Result]):
    """The work of one executor until it has finished, or breaks."""

    crew: Crew[Task, Result]
    waiting: deque[Sequence[Task]]
    waited: Callable[[], None]
    pending: dict[Future[list[Result]], Sequence[Task]] = field(default_factory=dict)
    lost: list[Sequence[Task]] = field(default_factory=list)

    def results(self, executor: Executor) -> Iterator[tuple[Sequence[Task], list[Result]]]:
        while self._fill(executor) and self.pending:
            done = wait(self.pending, _INTERVAL, return_when=FIRST_COMPLETED).done
            if not done:
                self.waited()
            for future in done:
                chunk = self.pending.pop(future)
                try:
                    result = future.result()
                except Refused:
                    raise
                except Exception:  # whatever it is, it is the executor's: the work itself does not raise
                    self.lost.append(chunk)
                else:
                    yield chunk, result
        self.lost += self.pending.values()

    def _fill(self, executor: Executor) -> bool:
        """Whether the executor takes work."""
        while self.waiting and len(self.pending) < self.crew.window:
            chunk = self.waiting.popleft()
            try:
                self.pending[self.crew.submit(executor, chunk)] = chunk
            except RuntimeError:  # it is broken, or was shut down
                self.lost.append(chunk)
                return False
        return True
