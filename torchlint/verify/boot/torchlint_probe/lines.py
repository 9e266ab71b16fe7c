"""Calls back when flagged lines run: `sys.monitoring` from Python 3.12 on, a trace function before."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer

from torchlint_probe.operators import unobserved
from torchlint_probe.sites import Sites

_TOOLS = (4, 3)
"""Tool identifiers of `sys.monitoring` that are free by convention."""

_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
"""Before Python 3.12 they are functions of their own, but still part of the statement around them."""


class Watcher(Protocol):
    """An observer of a statement; `enter` returns whether it needs the next time too.

    An observer with `leave`, which gets the same arguments and the exception or None, also needs its end.
    """

    def enter(self, frame: FrameType) -> bool: ...


class Watch:
    """A range of lines of one file, and its observers."""

    def __init__(
        self,
        file: int,
        lines: tuple[int, int],
        watcher: Watcher,
        *,
        patience: float = float("inf"),
    ) -> None:
        """After `patience` of its lines the watch ends."""
        self.file = file
        self.lines = lines
        self.watcher = watcher
        self.leave: Callable[[FrameType, BaseException | None], bool] | None = getattr(watcher, "leave", None)
        self.active = True
        self._patience = patience
        self._inside: dict[FrameType, int] = {}
        """Where frames entered the lines, if their end is of interest."""
        self._last: dict[int, tuple[int, int]] = {}
        """By thread, the frame that entered the lines last, and where."""

    def line(self, frame: FrameType) -> None:
        """One of the lines is about to run in the frame; a statement of several is entered by the first of them."""
        self._patience -= 1
        self.active &= self._patience >= 0
        if self.leave is None:
            thread, place = threading.get_ident(), frame.f_lasti
            known, last = self._last.get(thread, (0, 0))
            if known == id(frame) and place > last:
                return
            self._last[thread] = id(frame), place
        else:
            entered = self._inside.get(frame)
            if entered is not None and frame.f_lasti > entered:
                return
            if entered is not None:
                self.left(frame, None)
            self._inside[frame] = frame.f_lasti
        self._keep(self.watcher.enter(frame))

    def left(self, frame: FrameType, error: BaseException | None) -> None:
        """The frame has gone on, or is about to be left."""
        if self.leave is not None and self._inside.pop(frame, None) is not None:
            self._keep(self.leave(frame, error))

    def is_inside(self, frame: FrameType) -> bool:
        return frame in self._inside

    def _keep(self, wanted: bool) -> None:
        if not wanted:
            self.active = False
            self._inside.clear()


class _Watched:
    """The active watches of one code object."""

    def __init__(self, code: CodeType, watches: list[Watch]) -> None:
        self.code = code  # kept, as its identity is what it is known by
        self.by_line: dict[int, list[Watch]] = {}
        self.exact: list[Watch] = []
        if watches and code.co_name not in _COMPREHENSIONS:
            self._find(watches)

    def _find(self, watches: list[Watch]) -> None:
        own = {line for _, _, line in self.code.co_lines() if line}
        for watch in watches:
            for line in own.intersection(range(watch.lines[0], watch.lines[1] + 1)):
                self.by_line.setdefault(line, []).append(watch)
        self.exact = [watch for watch in watches if watch.leave is not None and self._has(watch)]

    def _has(self, watch: Watch) -> bool:
        return any(watch in watches for watches in self.by_line.values())

    def __bool__(self) -> bool:
        return bool(self.by_line)

    def prune(self) -> None:
        """Forget watches that have ended."""
        self.exact = [watch for watch in self.exact if watch.active]
        kept = {line: [watch for watch in watches if watch.active] for line, watches in self.by_line.items()}
        self.by_line = {line: watches for line, watches in kept.items() if watches}


class Lines:
    """All watches, and whichever way of hearing of lines this Python has."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._watches: dict[int, list[Watch]] = defaultdict(list)
        self._all: list[Watch] = []
        self.codes: dict[int, _Watched] = {}
        """By the identity of a code object: to hash one takes longer than all else here."""
        self.plain: set[int] = set()
        """By identity, code objects without active watches; they are kept alive in `codes`."""
        self._source: _Source = _Monitoring(self) if sys.version_info >= (3, 12) else _Tracing(self)
        self.switch = self._source.switch
        """Follow this thread from here on, or leave it alone; returns whether it was followed.

        The code of libraries, and the probe itself, run many times faster without a trace function.
        """

    def watch(self, watches: list[Watch]) -> None:
        """Watch these and no others, in code that runs from now on, and in the frames that are running."""
        self._source.stop()
        self._watches = defaultdict(list)
        self.codes = {}
        self.plain.clear()
        self._all = list(watches)
        for watch in watches:
            self._watches[watch.file].append(watch)
        if watches:
            self._source.start(any(watch.leave for watch in watches))

    @property
    def why_not(self) -> str:
        """Why lines cannot be watched; empty where they can."""
        return self._source.why_not

    @property
    def slows(self) -> bool:
        """Whether code without flagged lines is slower too, as long as it is not switched off."""
        return self._source.slows

    def end(self) -> None:
        """The process ends."""
        self._source.stop()

    def of(self, code: CodeType) -> _Watched:
        """The active watches of lines that belong to `code` itself."""
        known = self.codes.get(id(code))
        if known is None:
            watches = [watch for watch in self._watches.get(self._sites.file(code), ()) if watch.active]
            known = self.codes[id(code)] = _Watched(code, watches)
        return known

    def known(self, code: CodeType) -> _Watched | None:
        """The same, if the code has run already."""
        return self.codes.get(id(code))

    def line(self, frame: FrameType, number: int) -> _Watched:
        """Report a line to its watches; returns the watches of its code that need more lines."""
        watched = self.of(frame.f_code)
        here = watched.by_line.get(number, ())
        if here or watched.exact:
            with unobserved():
                for watch in watched.exact:
                    if watch not in here and watch.is_inside(frame):
                        watch.left(frame, None)
                for watch in here:
                    watch.line(frame)
        if not all(watch.active for watch in (*here, *watched.exact)):
            watched.prune()
            if not any(watch.active for watch in self._all):
                self._source.stop()  # after this, nothing in the program is slower
        return watched

    def leave(self, frame: FrameType, error: BaseException | None) -> None:
        """A frame returns, or raises `error`."""
        exact = self.of(frame.f_code).exact
        if exact:
            with unobserved():
                for watch in exact:
                    watch.left(frame, error)


class _Source(Protocol):
    why_not: str
    slows: bool

    def start(self, exact: bool) -> None: ...

    def stop(self) -> None: ...

    def switch(self, on: bool) -> bool: ...


class _Monitoring:
    """Line events of flagged code objects only: nothing else in the program is slower."""

    slows = False

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._tool = -1
        self._watched: list[CodeType] = []
        self.why_not = ""
        self._monitoring: Any = getattr(sys, "monitoring", None)

    def start(self, exact: bool) -> None:
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
        monitoring.set_events(self._tool, events.PY_START | (events.RAISE if exact else 0))
        monitoring.restart_events()
        for frame in _running():
            self._watch(frame.f_code)

    def stop(self) -> None:
        tool, self._tool = self._tool, -1
        if tool >= 0:
            self._monitoring.set_events(tool, 0)
            for code in self._watched:
                self._monitoring.set_local_events(tool, code, 0)
            self._watched = []
            self._monitoring.free_tool_id(tool)

    def switch(self, on: bool) -> bool:
        return False

    def _watch(self, code: CodeType) -> None:
        watched = self._lines.of(code)
        if watched:
            events = self._monitoring.events
            wanted = events.LINE | (events.PY_RETURN if watched.exact else 0)
            self._monitoring.set_local_events(self._tool, code, wanted)
            self._watched.append(code)

    def _started(self, code: CodeType, offset: int) -> Any:
        self._watch(code)
        return self._monitoring.DISABLE

    def _line(self, code: CodeType, number: int) -> Any:
        """A line without observers is disabled; the end of a statement is any line of its code."""
        watched = self._lines.line(sys._getframe(1), number)
        if not watched and self._tool >= 0:
            self._monitoring.set_local_events(self._tool, code, 0)
        return None if watched.exact or number in watched.by_line else self._monitoring.DISABLE

    def _returned(self, code: CodeType, offset: int, value: Any) -> None:
        self._lines.leave(sys._getframe(1), None)

    def _raised(self, code: CodeType, offset: int, error: BaseException) -> None:
        watched = self._lines.known(code)
        if watched is not None and watched.exact:
            self._lines.leave(sys._getframe(1), error)


class _Tracing:
    """A trace function that leaves all frames alone but those with flagged lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._plain = lines.plain
        self.why_not = ""
        self.slows = False
        self._trace = self._called  # always the same object
        self._entries: set[int] = set()
        """By identity, functions of torch that call none of the program's code before a hook that calls `switch`."""
        self._left: set[int] = set()
        """The threads that have entered one of these and are no longer traced."""

    def start(self, exact: bool) -> None:
        if sys.gettrace() is not None:
            self.why_not = "a debugger or coverage tool has taken sys.settrace"
            return
        self.slows = True
        self._entries = {id(code) for code in _entries()}
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        for frame in _running():
            if self._lines.of(frame.f_code):
                frame.f_trace = self._traced

    def stop(self) -> None:
        self.slows = False
        if threading.gettrace() is self._trace:
            nothing: Any = None  # some versions of the stubs do not allow None
            threading.settrace(nothing)
        if sys.gettrace() is self._trace:
            sys.settrace(None)

    def switch(self, on: bool) -> bool:
        trace = sys.gettrace()
        if trace is self._trace:
            if not on:
                sys.settrace(None)
            return True
        was_left = False
        if trace is None and self._left and (thread := threading.get_ident()) in self._left:
            self._left.discard(thread)
            was_left = self.slows
        if on and trace is None and self.slows:
            sys.settrace(self._trace)
        return was_left

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        key = id(frame.f_code)
        if key in self._plain:  # most calls of the program: no function may be called here
            return None
        if self._lines.of(frame.f_code):
            return self._traced
        if key in self._entries:
            self._left.add(threading.get_ident())
            sys.settrace(None)
        else:
            self._plain.add(key)
        return None

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            if not self._lines.line(frame, frame.f_lineno):
                return None
        elif event == "return":
            self._lines.leave(frame, None)
        elif event == "exception":
            self._lines.leave(frame, argument[1])
        return self._traced


def _running() -> Iterator[FrameType]:
    """The frames of this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _entries() -> Iterator[CodeType]:
    """The code of `backward` and of the function that PyTorch puts around each `step` of an optimizer."""
    yield torch.Tensor.backward.__code__
    yield from (item for item in Optimizer.profile_hook_step.__code__.co_consts if isinstance(item, CodeType))
