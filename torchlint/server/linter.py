"""When documents are linted: after a pause in typing, in one other thread, the latest form only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from torchlint.server.analysis import Analysis

Result = TypeVar("Result")


class Linter:
    """Lints documents by URI. Its methods belong to the thread of the event loop."""

    def __init__(
        self,
        prepare: Callable[[str], Callable[[], Analysis] | None],
        publish: Callable[[str, Analysis | None], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`prepare` gives the work that analyses the present form of a document, if it is to be linted at all."""
        self._prepare = prepare
        self._publish = publish
        self._fail = fail
        self._thread = ThreadPoolExecutor(1, "torchlint")  # what makes parsing fast and deep is global to the process
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: dict[str, asyncio.Task[Analysis | None]] = {}

    def lint(self, uri: str, delay: float = 0.0) -> None:
        """Lint a document in so many seconds; what is under way for it is outdated."""
        self.forget(uri)
        if delay:
            self._timers[uri] = asyncio.get_running_loop().call_later(delay, self._start, uri)
        else:
            self._start(uri)

    def forget(self, uri: str) -> None:
        """Let go of a document; a result that is still to come will not be published."""
        if timer := self._timers.pop(uri, None):
            timer.cancel()
        if task := self._tasks.pop(uri, None):
            task.cancel()

    async def latest(self, uri: str) -> Analysis | None:
        """The analysis of the present form of a document, at once; None if it is not linted."""
        while True:
            if uri in self._timers:
                self.lint(uri)
            task = self._tasks.get(uri)
            if task is None:
                return None
            await asyncio.wait({task})
            if not task.cancelled():
                return task.result()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do other work that lints, in the thread for it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def begin(self, work: Callable[[], None]) -> None:
        """Start work in the linting thread, and do not wait for it."""
        self._thread.submit(work)

    def close(self) -> None:
        """Start nothing more."""
        for uri in {*self._timers, *self._tasks}:
            self.forget(uri)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _start(self, uri: str) -> None:
        self._timers.pop(uri, None)
        self._tasks[uri] = asyncio.get_running_loop().create_task(self._lint(uri))

    async def _lint(self, uri: str) -> Analysis | None:
        try:
            work = self._prepare(uri)
            analysis = await self.run(work) if work is not None else None
            self._publish(uri, analysis)
        except Exception as error:
            self._fail(error)
            return None
        return analysis
