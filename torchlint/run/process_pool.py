"""Processes to work in: how many pay, how they start, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a run that needs no processes does not import what they need
    from concurrent.futures import Executor
    from multiprocessing.context import BaseContext

_SAFE_PATH = "PYTHONSAFEPATH"
_WORTH_A_FORK = 250_000
_WORTH_A_START = 2_000_000
"""Bytes of source that take longer to lint than a process takes to start: a copy of this one, or a new one."""


def usable_cpus() -> int:
    """The processors that this process may use."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processes_that_pay(files: int, size: int) -> int:
    """How many processes so many files, of so many bytes, are worth; fewer than two mean: this one."""
    most = min(usable_cpus(), files // 2, size // _WORTH_A_FORK)
    if most > 1 and not may_fork():
        most = min(most, size // _WORTH_A_START)
    return max(1, most)


def are_safe() -> bool:
    """Whether processes import nothing from the working folder, in which a new interpreter looks first."""
    return may_fork() or _may_be_told() or not _shadows_library()


def _may_be_told() -> bool:
    """Whether new interpreters do as the variable says, since Python 3.11."""
    return hasattr(sys.flags, "safe_path") and not sys.flags.ignore_environment


def _shadows_library() -> bool:
    """Whether something in the working folder has the name of a module of the standard library."""
    try:
        return any(name.partition(".")[0] in sys.stdlib_module_names for name in os.listdir())
    except OSError:
        return False


@contextmanager
def _safe_path() -> Iterator[None]:
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH)
        if before is not None:
            os.environ[_SAFE_PATH] = before


class NoProcesses(Exception):
    """This machine does not let this process start others; the message says why."""


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Processes that outlive neither the block nor this process, and leave Ctrl-C to it; raises `NoProcesses`."""
    with _safe_path():
        yield from _processes(count)


def _processes(count: int) -> Iterator[Executor]:
    from multiprocessing import active_children

    others = set(active_children())
    executor = _started(count)
    try:
        yield executor
    except BaseException:
        for child in set(active_children()) - others:
            child.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _started(count: int) -> Executor:
    """As many processes as are asked for; or else none, nor a descriptor of theirs, and `NoProcesses` is raised."""
    import gc
    from multiprocessing import active_children

    others = set(active_children())
    try:
        return _start(count)
    except BaseException as error:
        for child in set(active_children()) - others:
            child.kill()
            child.join()
        if not isinstance(error, (OSError, RuntimeError)):
            raise
        reason = str(error)
    gc.collect()  # what is half made holds its descriptors, and itself
    raise NoProcesses(reason)


def _start(count: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor

    _check_threads()
    executor = ProcessPoolExecutor(count, _context(), _prepare)
    with _interrupts_held():
        executor.submit(int)  # starts them
    return executor


def _check_threads() -> None:
    """Raise `RuntimeError` if there is no room for the executor's own two threads: it would wait for one for ever."""
    import threading

    enough = threading.Event()
    threads = [threading.Thread(target=enough.wait) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
    finally:
        enough.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _context() -> BaseContext:
    """A copy of this process is ready at once, since it has imported everything; but threads do not survive that."""
    import multiprocessing

    if may_fork():
        return multiprocessing.get_context("fork")
    unsafe = sys.platform == "linux" and multiprocessing.get_start_method(allow_none=True) is None
    return multiprocessing.get_context("forkserver" if unsafe else None)


def may_fork() -> bool:
    """If that is safe and the user has not chosen another method."""
    import multiprocessing
    import threading

    chosen = multiprocessing.get_start_method(allow_none=True)
    return sys.platform == "linux" and threading.active_count() == 1 and chosen in (None, "fork")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Protect the processes started here from interrupts; this process handles them a moment later."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    import gc
    import signal
    import threading

    gc.disable()  # `collect_after` collects in its place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(RuntimeError):  # no room for another thread
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """If the parent is killed, this process must end itself."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
