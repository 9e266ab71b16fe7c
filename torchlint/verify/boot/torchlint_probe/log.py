"""Writes the evidence of this process: a signed JSON file, replaced as a whole, every second or so and at the end."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_INTERVAL = 1.0
_SHARE = 0.005
"""Writing takes no more than this share of the time."""
_TRIES = 5
_exit = os._exit  # which the probe will replace


class Log:
    """The evidence file, a thread that writes it, and the watch on the launcher's life."""

    def __init__(
        self,
        folder: str,
        key: bytes,
        deadline: float,
        snapshot: Callable[[], dict[str, Any] | None],
        steps: Callable[[], int],
        standing: Callable[[], dict[str, Any] | None],
    ) -> None:
        """Evidence is written at the deadline in any case: soon after it the program is killed."""
        self._folder = folder
        self._deadline = deadline
        self._key = key
        self._snapshot = snapshot
        self._steps = steps
        self._standing = standing
        self._waits = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write, if that has not begun in this process."""
        self._waits = False
        self._begin()

    def wait(self) -> None:
        """Write at the deadline only, until something happens."""
        self._waits = True
        self._begin()

    def _begin(self) -> None:
        if self._thread is None:
            self._wake = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._wake,), name="torchlint", daemon=True)
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether evidence is written every now and then."""
        return self._thread is not None and not self._waits

    def pause(self) -> None:
        """End the thread, before a fork: a process is forked with one thread as far as we are concerned."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.set()
            thread.join()

    def forked(self) -> None:
        """In the child of a fork, where no thread is left."""
        self._lock = threading.Lock()
        self._thread = None

    def _run(self, wake: threading.Event) -> None:
        sys.settrace(None)  # which the probe may have set for all threads
        due = time.monotonic() + _INTERVAL
        is_up = False
        while not wake.wait(min(_INTERVAL, self._until_deadline())):
            was_up, is_up = is_up, time.monotonic() >= self._deadline
            if not self._waits:
                self._count()
            self.stand()
            if (is_up and not was_up) or (time.monotonic() >= due and not self._waits):
                start = time.thread_time()
                self.write()
                due = time.monotonic() + max(_INTERVAL, (time.thread_time() - start) / _SHARE)
            if self._launcher_is_gone():
                _exit(1)

    def _count(self) -> None:
        """Write the number of steps for the launcher."""
        with contextlib.suppress(OSError), open(os.path.join(self._folder, f"steps-{os.getpid()}"), "w") as file:
            file.write(str(self._steps()))

    def stand(self) -> None:
        """Write for the launcher which collective calls this rank has made, and which one it waits in."""
        with contextlib.suppress(OSError, RuntimeError):
            standing = self._standing()
            if standing is None:
                return
            path = os.path.join(self._folder, f"rank-{os.getpid()}")
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump(standing, file)
            os.replace(path + ".new", path + ".json")

    def _until_deadline(self) -> float:
        left = self._deadline - time.monotonic()
        return left if left > 0 else _INTERVAL

    def _launcher_is_gone(self) -> bool:
        """The launcher holds a lock for as long as it lives."""
        try:
            import fcntl
        except ImportError:  # Windows: its jobs end with their owner
            return False
        try:
            with open(os.path.join(self._folder, "alive"), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def write(self) -> None:
        """Write what is known now.

        A full disk, or a missing folder, must not affect the program.
        """
        with self._lock, contextlib.suppress(OSError):
            body = self._taken()
            if not body:
                return
            seal = hmac.new(self._key, body.encode(), "sha256").hexdigest()
            path = os.path.join(self._folder, f"evidence-{os.getpid()}.json")
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(f"{seal}\n{body}\n")
            os.replace(path + ".new", path)

    def _taken(self) -> str:
        """The current evidence, if there is any. If another thread changes it during the read, it is read again."""
        for _ in range(_TRIES):
            with contextlib.suppress(RuntimeError):
                evidence = self._snapshot()
                return "" if evidence is None else json.dumps(evidence, separators=(",", ":"), default=_kind)
        return ""


def _kind(value: object) -> str:
    """A text for an object that only a program could have put into the evidence, so that writing does not fail."""
    return type(value).__name__
