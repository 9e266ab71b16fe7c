"""The standard streams, which may be closed, full, or without a reader."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import Any, Literal, NoReturn, TextIO


class _Messages:
    """Standard error that drops text it cannot write: the exit code is enough."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Replace closed streams, so that no file gets their numbers and every use raises `OSError`.

    Only messages are lost.
    """
    sys.stdin = sys.stdin or _in_place_of_closed(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _in_place_of_closed(os.O_RDONLY, "w")
    sys.stderr = _Messages(sys.stderr or _in_place_of_closed(os.O_WRONLY, "w"))


def _in_place_of_closed(flags: int, mode: Literal["r", "w"]) -> TextIO:
    """A stream with the lowest free number, which is the number of the closed one."""
    descriptor = os.open(os.devnull, flags)
    os.set_inheritable(descriptor, True)
    return open(descriptor, mode, encoding="utf-8", closefd=False)


def abandon_output() -> None:
    """Drop output that cannot be written. Otherwise Python tries again at exit and prints an error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave(code: Any) -> NoReturn:
    """End the process like `sys.exit`, but do not free memory."""
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)
