"""Where in the user's program something happened: stacks of its frames, each stack with a number."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_DEPTH = 8
"""How many of the user's frames make up a site, the innermost first."""

_FOREIGN = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

_OWN = os.path.join(os.path.dirname(os.path.realpath(__file__)), "")

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
        self._codes: dict[CodeType, int] = {}
        self._ids: dict[Site, int] = {(): 0}

    def file(self, code: CodeType) -> int:
        """The number of the user's file that `code` is from; -1 for all others."""
        number = self._codes.get(code)
        if number is None:
            number = self._codes[code] = self._file(code.co_filename)
        return number

    def _file(self, name: str) -> int:
        if name.startswith("<"):
            return -1
        path = os.path.realpath(os.path.join(self._start, name))
        if path not in self._numbers:
            if not path.startswith(self._root) or path.startswith(_OWN) or any(part in path for part in _FOREIGN):
                return -1
            self._numbers[path] = len(self.files)
            self.files.append(path)
        return self._numbers[path]

    def here(self) -> int:
        """The number of the stack of the user's frames that called; 0 where there are none."""
        frame: FrameType | None = sys._getframe(1)
        codes = self._codes
        stack: list[tuple[int, int]] = []
        while frame is not None and len(stack) < _DEPTH:
            number = codes.get(frame.f_code)
            if number is None:
                number = self.file(frame.f_code)
            if number >= 0:
                stack.append((number, frame.f_lineno or 0))
            frame = frame.f_back
        site = tuple(stack)
        known = self._ids.get(site)
        if known is None:
            known = self._ids[site] = len(self.stacks)
            self.stacks.append(site)
        return known
