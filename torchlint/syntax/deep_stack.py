"""Stack space for deeply nested code, which needs a deeper stack than a thread usually has."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_STACKS = ((512 * 1024 * 1024, 50_000), (64 * 1024 * 1024, 6_000))
"""Stack sizes of a thread in bytes, with the maximum call depth; the second if there is no room for the first."""

Result = TypeVar("Result")


def with_deep_stack(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread whose stack holds deeply nested code; the main thread's would overflow.

    If no thread can start, run it here with the usual depth.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    for stack, calls in _STACKS:
        if _ran_in_thread(run, stack, calls):
            if failure:
                raise failure[0]
            return outcome[0]
    return work()


def _ran_in_thread(run: Callable[[], None], stack: int, calls: int) -> bool:
    """Whether a thread with such a stack could start; it has ended by then."""
    limit, size = sys.getrecursionlimit(), threading.stack_size(stack)
    sys.setrecursionlimit(max(limit, calls))
    try:
        thread = threading.Thread(target=run, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # can't start new thread
            return False
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    return True
