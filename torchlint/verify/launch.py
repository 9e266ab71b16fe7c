"""Starts the program in its own process group with the boot hook, and makes sure that it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from torchlint.verify.counter import Counter
from torchlint.verify.folder import Folder, Limits
from torchlint.verify.stuck import Lookout

BOOT = Path(__file__).parent / "boot"
_PLAN = "TORCHLINT_VERIFY"
_POLL = 0.05
_PATIENCE = 1.5
"""Seconds beyond the budget in which the probe may end the program itself."""
_POLITE = (("SIGINT", 5.0), ("SIGTERM", 3.0), ("SIGKILL", 2.0))
"""Signals, and seconds to wait after each, where the user has interrupted the program,"""
_PROMPT = (("SIGINT", 0.5), ("SIGTERM", 0.3), ("SIGKILL", 2.0))
"""and where its time is up."""


class LaunchError(Exception):
    """The program cannot be started; the message is for the user."""


@dataclass(frozen=True)
class Ended:
    """The program's end. `code` is as in `subprocess`: negative for a signal."""

    code: int
    seconds: float
    timed_out: bool = False
    signal: int = 0
    """The signal that the launcher itself received, or 0."""
    is_stuck: bool = False
    """Whether it was stopped because ranks waited for collective calls that never come. Then its time is up."""
    stopped: str = ""
    """The budget after which the probe stopped the program; empty if it did not."""

    @property
    def was_ended(self) -> bool:
        """Whether it would have continued: then its exit code is not its own."""
        return self.timed_out or bool(self.stopped and not self.code)

    @property
    def description(self) -> str:
        """A description for the report."""
        if self.signal:
            return f"interrupted by {signal.Signals(self.signal).name}"
        if self.is_stuck:
            return "stopped because its ranks waited for each other"
        if self.timed_out:
            return "stopped when its time was up"
        if self.was_ended:
            return f"stopped after {self.stopped}"
        if self.code < 0:
            return f"killed by {_signal_name(-self.code)}"
        return f"exit code {self.code}"


Launcher = Callable[[Sequence[str], Folder, Limits, Mapping[str, str] | None], Ended]
"""The function that runs a program: `launch`, except in tests."""


def launch(command: Sequence[str], folder: Folder, limits: Limits, variables: Mapping[str, str] | None = None) -> Ended:
    """Run the program to its end, the end of its budget, or a signal; raises `LaunchError`.

    Its output goes to standard error, and its environment also has these `variables`. When this function returns, none
    of its processes is left running.
    """
    started = time.monotonic()
    with _signals_noted() as noted:
        try:
            process = _start(command, {**environment(os.environ, folder), **(variables or {})})
        except OSError as error:
            raise LaunchError(f"cannot run {command[0]}: {error.strerror}") from None
        with _terminal_of(process):
            counter = Counter(folder, limits, sys.stderr)
            lookout = Lookout(folder.members)
            timed_out = not _wait(process, limits, started, noted, counter, lookout)
            counter.end()
            if process.poll() is None:
                _end(process, _POLITE if noted else _PROMPT)
        _sweep(process, folder, 2.0 if noted or not timed_out else 0.3)
    seconds = time.monotonic() - started
    number = noted[0] if noted else 0
    return Ended(process.returncode, seconds, timed_out and not noted, number, lookout.has_seen and not noted)


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    options: dict[str, Any] = {}
    if os.name == "posix":
        options = {"preexec_fn": _in_own_group}
    else:
        options = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return subprocess.Popen(command, env=environment, stdout=sys.stderr.fileno(), **options)


def environment(variables: Mapping[str, str], folder: Folder) -> dict[str, str]:
    """These variables, and those that let Python find the probe, and the probe its plan."""
    paths = [str(BOOT), *filter(None, [variables.get("PYTHONPATH")])]
    return {**variables, "PYTHONPATH": os.pathsep.join(paths), _PLAN: str(folder.path)}


def _in_own_group() -> None:
    """Set up the child before the program starts: its own group, and on Linux an end together with its parent."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


@contextlib.contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """A list that collects signals to this process instead of ending it."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    try:
        before = {number: signal.signal(number, note) for number in numbers}
    except ValueError:  # not the main thread
        before = {}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _terminal_of(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Lend the program the terminal, so that it can read from it, and Ctrl-C reaches it."""
    if os.name != "posix" or not sys.stdin or not sys.stdin.isatty():
        yield
        return
    own = os.getpgrp()
    stdin = sys.stdin.fileno()
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(stdin, process.pid)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(stdin, own)
        signal.signal(signal.SIGTTOU, before)


def _wait(
    process: subprocess.Popen[bytes],
    limits: Limits,
    started: float,
    noted: list[int],
    counter: Counter,
    lookout: Lookout,
) -> bool:
    """Wait for the end; False if the time is up, a signal arrived, or ranks are stuck."""
    deadline = started + limits.max_seconds + _PATIENCE if limits.max_seconds else float("inf")
    while process.poll() is None:
        if noted or time.monotonic() > deadline or lookout.sees_stuck_ranks:
            return False
        counter.update()
        time.sleep(_POLL)
    return True


def _end(process: subprocess.Popen[bytes], steps: Sequence[tuple[str, float]]) -> None:
    """Ask the group to end, with increasingly strong signals."""
    for name, patience in steps:
        _signal_group(process.pid, getattr(signal, name, signal.SIGTERM))
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(group, number)


def _sweep(process: subprocess.Popen[bytes], folder: Folder, patience: float) -> None:
    """End the program's remaining processes: its group, and processes with the boot hook that left the group.

    They have `patience` seconds to end by themselves.
    """
    if os.name != "posix":
        return
    _signal_group(process.pid, signal.SIGTERM)
    left = [pid for pid in folder.booted() if pid != process.pid and _is_ours(pid, folder)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if number == signal.SIGTERM:
            _wait_for(left, folder, patience)
    _signal_group(process.pid, signal.SIGKILL)


def _wait_for(pids: list[int], folder: Folder, patience: float) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and any(_is_ours(pid, folder) for pid in pids):
        time.sleep(_POLL)


def _is_ours(pid: int, folder: Folder) -> bool:
    """Whether a process is alive and was started by this verification. Process numbers are reused."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{_PLAN}={folder.path}") in environment.split(b"\0")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
