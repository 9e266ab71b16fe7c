"""Sites in the user's program: stacks of its frames, each with a number."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType

import torch

from torchlint_probe.claim import variables_of

_DEPTH = 8
"""The number of user frames in a site, the innermost first."""

_FOREIGN = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

_OWN = os.path.join(os.path.dirname(os.path.realpath(__file__)), "")
_BELOW = tuple(os.path.join(os.path.dirname(path), "") for path in (__file__, torch.__file__))

Site = tuple[tuple[int, int], ...]
"""Number of a file and line in it, for each frame."""


class Sites:
    """Numbers for stacks of frames below `root` or in one of `files`."""

    def __init__(self, root: str, files: list[str], start: str) -> None:
        self.files: list[str] = list(files)
        self.stacks: list[Site] = [()]
        self._root = os.path.join(root, "")
        self._start = start
        self._numbers: dict[str, int] = {path: number for number, path in enumerate(files)}
        self._names: dict[str, int] = {}
        self._has_foreign = any(_is_foreign(path) for path in files)
        self._codes: dict[int, int] = {}
        """By the identity of a code object: to hash one takes longer than all else here."""
        self._kept: list[CodeType] = []
        self._ids: dict[Site, int] = {(): 0}
        self._known: dict[tuple[int, ...], int] = {(): 0}
        self._lock = threading.RLock()  # a trace function may come in between

    def file(self, code: CodeType) -> int:
        """The number of the user's file that `code` is from; -1 for all others."""
        number = self._codes.get(id(code))
        if number is None:
            with self._lock:
                self._kept.append(code)
                number = self._codes[id(code)] = self.file_named(code.co_filename)
        return number

    def file_named(self, name: str) -> int:
        """The number of the user's file of this name; -1 for all others."""
        with self._lock:
            if name not in self._names:
                self._names[name] = self._file(name)
            return self._names[name]

    def is_users(self, path: str | None) -> bool:
        """Whether a file is one of the user's that has run."""
        return path is not None and self._names.get(path, -1) >= 0

    def _file(self, name: str) -> int:
        if name.startswith("<") or (_is_foreign(name) and not self._has_foreign):
            return -1
        path = os.path.realpath(os.path.join(self._start, name))
        if path not in self._numbers:
            if not path.startswith(self._root) or path.startswith(_OWN) or _is_foreign(path):
                return -1
            self._numbers[path] = len(self.files)
            self.files.append(path)
        return self._numbers[path]

    def here(self) -> int:
        """The number of the stack of the user's frames that called; 0 where there are none."""
        return self.of_frame(sys._getframe(1))

    def of_frame(self, innermost: FrameType) -> int:
        """The number of the stack of the user's frames from this one on; 0 where there are none."""
        frame: FrameType | None = innermost
        codes = self._codes
        stack: list[FrameType] = []
        places: list[int] = []
        while frame is not None and len(stack) < _DEPTH:
            code = frame.f_code
            number = codes.get(id(code))
            if number is None:
                number = self.file(code)
            if number >= 0:
                stack.append(frame)
                places += (id(code), frame.f_lasti)
            frame = frame.f_back
        known = self._known.get(tuple(places))
        return self._add(stack, tuple(places)) if known is None else known

    def codes(self) -> Iterator[CodeType]:
        """The functions of the user's that are running in this thread, the innermost first."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self.file(frame.f_code) >= 0:
                yield frame.f_code
            frame = frame.f_back

    def apart(self, site: int, other: int) -> int:
        """The number of the line of `site` at which its stack parts from that of another, seen from outside."""
        stack, beside = self.stacks[site], self.stacks[other]
        common = 0
        while common < min(len(stack), len(beside)) and stack[-1 - common] == beside[-1 - common]:
            common += 1
        return self._numbered(stack[len(stack) - common - 1 :]) if common < len(stack) else site

    def at(self, code: CodeType) -> int:
        """The number of the place at which a function of the user's begins."""
        return self._numbered(((self.file(code), code.co_firstlineno),))

    def place(self, file: int, line: int) -> int:
        """The number of a line of one of the files."""
        return self._numbered(((file, line),))

    def _numbered(self, site: Site) -> int:
        with self._lock:
            if site not in self._ids:
                self.stacks.append(site)
                self._ids[site] = len(self.stacks) - 1
            return self._ids[site]

    def joined(self, inner: int, outer: int) -> int:
        """The number of a stack that was called by another, which is in a thread of its own."""
        return self._numbered((*self.stacks[inner], *self.stacks[outer])[:_DEPTH]) if outer else inner

    def of_traceback(self, traceback: TracebackType | None) -> int:
        """The number of the stack of the user's frames that an error has passed, up to where it was raised."""
        places = []
        while traceback is not None:
            number = self.file(traceback.tb_frame.f_code)
            if number >= 0:
                places.append((number, traceback.tb_lineno))
            traceback = traceback.tb_next
        return self._numbered(tuple(reversed(places[-_DEPTH:])))

    def frames_of(self, error: BaseException) -> Iterator[FrameType]:
        """The user's frames that an error has passed, the outermost first."""
        traceback = error.__traceback__
        while traceback is not None:
            if self.file(traceback.tb_frame.f_code) >= 0:
                yield traceback.tb_frame
            traceback = traceback.tb_next

    def frames(self) -> Iterator[FrameType]:
        """The user's frames that are running, the innermost first."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self.file(frame.f_code) >= 0:
                yield frame
            frame = frame.f_back

    def variable(self, value: object) -> str:
        """The name by which the innermost of the user's frames has a value; empty where it has none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and self.file(frame.f_code) < 0:
            frame = frame.f_back
        variables = () if frame is None else (*variables_of(frame).items(), *frame.f_globals.items())
        return next((name for name, held in variables if held is value), "")

    def is_library_calling(self) -> bool:
        """Whether the innermost frame outside of torch and the probe is not one of the user's."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_BELOW):
            frame = frame.f_back
        return frame is not None and self.file(frame.f_code) < 0

    def _add(self, frames: list[FrameType], places: tuple[int, ...]) -> int:
        """To find out the line of a frame takes long, so that is done once for each instruction."""
        site = tuple((self.file(frame.f_code), frame.f_lineno or 0) for frame in frames)
        with self._lock:
            self._known[places] = self._numbered(site)
            return self._known[places]


def _is_foreign(path: str) -> bool:
    return any(part in path for part in _FOREIGN)
