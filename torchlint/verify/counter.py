"""A line on the terminal that counts steps while the program runs, and disappears afterwards."""

from __future__ import annotations

import contextlib
import time
from typing import TextIO

from torchlint.verify.folder import Folder, Limits

_FIRST = 3.0
"""Seconds until the line first appears, and"""
_EVERY = 1.0
_RARELY = 30.0
"""between updates. Without a terminal each update is a line of its own, and the interval doubles each time."""


class Counter:
    """Reads how many steps the probe has counted; the busiest process counts."""

    def __init__(self, folder: Folder, limits: Limits, stream: TextIO) -> None:
        self._folder = folder
        self._limits = limits
        self._stream = stream
        self._start = time.monotonic()
        self._is_live = stream.isatty()
        self._next = _FIRST if self._is_live else _RARELY
        self._width = 0

    def update(self) -> None:
        """Show the program's progress, if it is time."""
        passed = time.monotonic() - self._start
        if passed < self._next:
            return
        self._next = passed + _EVERY if self._is_live else self._next * 2
        most = f" of {self._limits.max_steps:,}" if self._limits.max_steps else ""
        self._show(f"torchlint: {self._folder.steps:,}{most} steps in {passed:.0f} s")

    def end(self) -> None:
        """Leave an empty line on a terminal."""
        if self._width and self._is_live:
            self._write(f"\r{'':{self._width}}\r")

    def _show(self, text: str) -> None:
        self._write(f"\r{text:{self._width}}" if self._is_live else f"{text}\n")
        self._width = len(text)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
