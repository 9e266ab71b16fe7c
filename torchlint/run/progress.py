"""A line on the terminal that says how far a long run is, and then goes away."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

_PATIENCE = 1.0
_INTERVAL = 0.1
_ENOUGH = 0.02
"""The share of the work from which on the rest can be guessed."""


class Progress:
    """Called with files done, files in all, and the share of their bytes that is done.

    Writes to a terminal only, and only after a second.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._next = float("inf") if quiet or not stream.isatty() else self._start + _PATIENCE
        self._width = 0

    def __call__(self, done: int, total: int, share: float) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _INTERVAL
            passed = now - self._start
            left = f", about {_shown(passed * (1 - share) / share)} left" if _ENOUGH <= share < 1 else ""
            self._show(f"torchlint: {share:.0%}, {done:,} of {total:,} files, {_shown(passed)}{left}")

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


def _shown(seconds: float) -> str:
    """`12 s`, or `3 min 20 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
