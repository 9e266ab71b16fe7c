"""Calls back when flagged lines run: `sys.monitoring` from Python 3.12 on, a trace function before."""

from __future__ import annotations

import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, Protocol

from torchlint_probe.sites import Sites

_TOOLS = (4, 3)
"""Tool identifiers of `sys.monitoring` that are nobody's by convention."""


class Watcher(Protocol):
    """Wants to know of a statement. `enter` and `leave` return whether they want to be called again."""

    def enter(self, frame: FrameType) -> bool: ...

    def leave(self, frame: FrameType, error: BaseException | None) -> bool: ...


class Watch:
    """A range of lines of one file, and who wants to know."""

    def __init__(
        self,
        file: int,
        lines: tuple[int, int],
        watcher: Watcher,
        *,
        exact: bool = False,
        patience: float = float("inf"),
    ) -> None:
        """`exact` watches are told when the lines are left; after `patience` lines of their code they end."""
        self.file = file
        self.lines = lines
        self.watcher = watcher
        self.exact = exact
        self.active = True
        self._patience = patience
        self._inside: dict[FrameType, int] = {}

    def line(self, frame: FrameType, number: int) -> None:
        """A line of the frame is about to run."""
        self._patience -= 1
        if self.lines[0] <= number <= self.lines[1]:
            last = self._inside.get(frame)
            if last is not None and frame.f_lasti > last:
                return
            if last is not None:
                self.left(frame, None)
            self._inside[frame] = frame.f_lasti
            self._keep(self.watcher.enter(frame))
        elif frame in self._inside:
            self.left(frame, None)

    @property
    def is_done(self) -> bool:
        """Whether nobody wants to know of more."""
        return not self.active or self._patience < 0

    def left(self, frame: FrameType, error: BaseException | None) -> None:
        """The frame has gone on, or is about to be left."""
        if self._inside.pop(frame, None) is not None and self.exact:
            self._keep(self.watcher.leave(frame, error))

    def _keep(self, wanted: bool) -> None:
        if not wanted:
            self.active = False
            self._inside.clear()


class Lines:
    """All watches, and whichever way of hearing of lines this Python has."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._watches: dict[int, list[Watch]] = defaultdict(list)
        self._all: list[Watch] = []
        self._codes: dict[CodeType, list[Watch]] = {}
        self._source: _Source = _Monitoring(self) if sys.version_info >= (3, 12) else _Tracing(self)

    def add(self, watch: Watch) -> None:
        self._watches[watch.file].append(watch)
        self._all.append(watch)

    def start(self) -> None:
        """Watch code that runs from now on, and the frames that are running."""
        if self._watches:
            self._source.start()

    def stop(self) -> None:
        """Hear of no more lines."""
        self._source.stop()

    @property
    def why_not(self) -> str:
        """Why lines cannot be watched; empty where they can."""
        return self._source.why_not

    def is_watched(self, code: CodeType) -> bool:
        """Whether lines of `code` are watched, as far as it has run already."""
        return bool(self._codes.get(code))

    def watches_of(self, code: CodeType) -> list[Watch]:
        """The active watches of lines that belong to `code` itself."""
        watches = self._codes.get(code)
        if watches is None:
            watches = self._codes[code] = list(self._of(code))
        return watches

    def _of(self, code: CodeType) -> Iterator[Watch]:
        watches = self._watches.get(self._sites.file(code))
        if watches:
            own = {line for _, _, line in code.co_lines() if line}
            for watch in watches:
                if any(watch.lines[0] <= line <= watch.lines[1] for line in own):
                    yield watch

    def line(self, frame: FrameType, number: int) -> bool:
        """Tell the watches of a line; returns whether any is left that wants to know of more."""
        watches = self._codes[frame.f_code]
        done = False
        for watch in watches:
            watch.line(frame, number)
            done |= watch.is_done
        if done:
            watches[:] = [watch for watch in watches if not watch.is_done]
            if all(watch.is_done for watch in self._all):
                self.stop()  # from here on nothing in the program is slower
        return bool(watches)

    def leave(self, frame: FrameType, error: BaseException | None) -> None:
        """A frame returns, or raises `error`."""
        for watch in self._codes.get(frame.f_code, ()):
            watch.left(frame, error)


class _Source(Protocol):
    why_not: str

    def start(self) -> None: ...

    def stop(self) -> None: ...


class _Monitoring:
    """Line events of flagged code objects only: nothing else in the program is slower."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._tool = -1
        self._watched: list[CodeType] = []
        self.why_not = ""
        self._monitoring: Any = getattr(sys, "monitoring", None)

    def start(self) -> None:
        monitoring = self._monitoring
        self._tool = next((tool for tool in _TOOLS if monitoring.get_tool(tool) is None), -1)
        if self._tool < 0:
            self.why_not = "other tools have taken all of sys.monitoring"
            return
        events = monitoring.events
        monitoring.use_tool_id(self._tool, "torchlint")
        monitoring.register_callback(self._tool, events.PY_START, self._started)
        monitoring.register_callback(self._tool, events.LINE, self._line)
        monitoring.register_callback(self._tool, events.PY_RETURN, self._returned)
        monitoring.register_callback(self._tool, events.RAISE, self._raised)
        monitoring.set_events(self._tool, events.PY_START | events.RAISE)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            self._watch(frame.f_code)
            frame = frame.f_back

    def stop(self) -> None:
        tool, self._tool = self._tool, -1
        if tool >= 0:
            self._monitoring.set_events(tool, 0)
            for code in self._watched:
                self._monitoring.set_local_events(tool, code, 0)
            self._monitoring.free_tool_id(tool)

    def _watch(self, code: CodeType) -> None:
        if self._lines.watches_of(code):
            events = self._monitoring.events
            self._monitoring.set_local_events(self._tool, code, events.LINE | events.PY_RETURN)
            self._watched.append(code)

    def _started(self, code: CodeType, offset: int) -> Any:
        self._watch(code)
        return self._monitoring.DISABLE

    def _line(self, code: CodeType, number: int) -> Any:
        frame = sys._getframe(1)
        if not self._lines.line(frame, number):
            if self._tool >= 0:
                self._monitoring.set_local_events(self._tool, code, 0)
            return self._monitoring.DISABLE
        _forget_locals(frame)
        return None

    def _returned(self, code: CodeType, offset: int, value: Any) -> None:
        self._lines.leave(sys._getframe(1), None)

    def _raised(self, code: CodeType, offset: int, error: BaseException) -> None:
        if self._lines.is_watched(code):
            self._lines.leave(sys._getframe(1), error)


def _forget_locals(frame: FrameType) -> None:
    """Before Python 3.13 a frame's `f_locals` is a copy that would keep the tensors in it alive."""
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()


class _Tracing:
    """A trace function that leaves all frames alone but those with flagged lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.why_not = ""

    def start(self) -> None:
        if sys.gettrace() is not None:
            self.why_not = "a debugger or coverage tool has taken sys.settrace"
            return
        threading.settrace(self._called)
        sys.settrace(self._called)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if self._lines.watches_of(frame.f_code):
                frame.f_trace = self._traced
            frame = frame.f_back

    def stop(self) -> None:
        threading.settrace(None)
        if sys.gettrace() == self._called:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._traced if self._lines.watches_of(frame.f_code) else None

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            if not self._lines.line(frame, frame.f_lineno):
                return None
        elif event == "return":
            self._lines.leave(frame, None)
        elif event == "exception":
            self._lines.leave(frame, argument[1])
        return self._traced
