"""A line on the terminal that says how far a long run is, and then goes away."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

_PATIENCE = 1.0
_INTERVAL = 0.1


class Progress:
    """Called with files done and files in all; writes to a terminal only, and only after a second."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._next = float("inf") if quiet or not stream.isatty() else time.monotonic() + _PATIENCE
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _INTERVAL
            self._show(f"torchlint: {done:,} of {total:,} files")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._show("")
            self._stream.write("\r")
            self._stream.flush()

    def _show(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
