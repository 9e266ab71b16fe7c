"""Ends the program when the budget is used up: gently, then with force."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from torchlint_probe.plan import Plan

_ATTEMPTS = 3
"""How often each thread is asked to end."""
_GRACE = 15.0
"""Seconds in which the program may end by itself after the request,"""
_LATEST = 1.0
"""and the maximum number of seconds after its time is up."""


class EnoughSeen(SystemExit):
    """The budget is used up. Passes `except Exception`; `finally` blocks run; exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Budget:
    """Counts down steps and seconds, and raises in the program's own code."""

    def __init__(self, plan: Plan, flush: Callable[[], None]) -> None:
        self._steps = plan.max_steps
        self._seconds = plan.max_seconds
        # Ranks must stop at the same step, or the others wait forever: the launcher times them.
        self._deadline = float("inf") if "RANK" in os.environ else plan.deadline
        self._hard = plan.hard
        self._start = 0.0
        self._flush = flush
        self._attempts: Counter[int] = Counter()
        self.reason = ""

    def start(self) -> None:
        """The first backward or step."""
        self._start = self._start or time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the first backward or step."""
        return time.monotonic() - self._start if self._start else 0.0

    def is_near(self, step: int, steps: int) -> bool:
        """Whether `step` is one of the last `steps` before the program is stopped."""
        return self._steps > 0 and self._steps - steps <= step < self._steps

    def check(self, steps: int) -> None:
        """Raise if the budget is spent."""
        if self._steps and steps >= self._steps:
            self._stop(f"{steps} steps")
        elif time.monotonic() > self._deadline:
            self._stop(f"{self._seconds:g} seconds")

    def _stop(self, reason: str) -> None:
        is_first = not self.reason
        self.reason = self.reason or reason
        self._flush()
        thread = threading.get_ident()
        self._attempts[thread] += 1
        if self._hard or self._attempts[thread] > _ATTEMPTS:
            _leave()
        if is_first:
            timer = threading.Timer(self._grace(), self._end)
            timer.daemon = True
            timer.start()
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit(0)  # exactly this class: Python prints the tracebacks of its subclasses
        raise _pytest_exit() or EnoughSeen()

    def _grace(self) -> float:
        return min(_GRACE, max(self._deadline - time.monotonic(), 0.0) + _LATEST)

    def _end(self) -> None:
        self._flush()
        _leave()


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)


def _pytest_exit() -> Any:
    """Under pytest, its own exception to end a session: a SystemExit would be a failed test."""
    outcomes = sys.modules.get("_pytest.outcomes")
    if outcomes is None or "PYTEST_CURRENT_TEST" not in os.environ:
        return None
    return outcomes.Exit("torchlint verify has seen enough", returncode=0)
