"""Runs programs in forks of a process that has imported torch, so that not every one of them imports it again.

A fork is probed as a program that finds the probe's `sitecustomize` after torch: the import hook is left out, which
`test_faults.py` and `test_command.py` go through. Its process group, environment, folder, `__main__`, exit and what it
starts are those of a program of its own; only the interpreter is not taken apart, which takes longer than most of them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

_SERVER = "import sys; sys.path.insert(0, sys.argv[1]); from nursery import serve; serve()"


class Nursery:
    """A process that forks one program at a time; `launch` has the form of `torchlint.verify.launch.launch`."""

    def __init__(self, modules: Sequence[str] = ("torch", "torch._dynamo")) -> None:
        self._variables = dict(os.environ)  # here, since pytest changes them in its own thread
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, os.path.dirname(__file__), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def launch(
        self, command: Sequence[str], folder: Any, limits: Any, variables: Mapping[str, str] | None = None
    ) -> Any:
        """Run the script of `python SCRIPT ARGUMENTS...`."""
        from torchlint.verify.launch import BOOT, Ended, environment
        from torchlint.verify.stuck import Lookout

        request = {
            "arguments": list(command[1:]),
            "boot": str(BOOT),
            "environment": {**environment(self._variables, folder), **(variables or {})},
        }
        assert self._server.stdin and self._server.stdout
        started = time.monotonic()
        print(json.dumps(request), file=self._server.stdin, flush=True)
        pid = int(self._server.stdout.readline())
        over = threading.Event()
        timer = threading.Timer(limits.max_seconds + 5, _end, (pid, over))
        timer.start()
        done = threading.Event()
        lookout = Lookout(folder.members)
        looks = threading.Thread(target=_look, args=(lookout, pid, over, done))
        looks.start()
        code = int(self._server.stdout.readline())
        done.set()
        looks.join()
        timer.cancel()
        return Ended(code, time.monotonic() - started, over.is_set(), 0, lookout.has_seen)


def _end(group: int, over: threading.Event) -> None:
    over.set()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _look(lookout: Any, group: int, over: threading.Event, done: threading.Event) -> None:
    """End the program when its ranks wait for each other, as the launcher does."""
    while not done.wait(0.5) and not lookout.has_seen:
        if lookout.sees_stuck_ranks:
            _end(group, over)


def serve() -> None:
    """Import modules, then fork a program for each line of standard input."""
    for name in sys.argv[2:]:
        __import__(name)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _become(json.loads(line))
            return
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: Mapping[str, Any]) -> None:
    """The program: to its end, or the exception that it ends with."""
    os.setpgid(0, 0)
    codes: list[int] = []
    atexit.register(_leave, codes, os._exit)  # first, and hence called last
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    os.environ.clear()
    os.environ.update(request["environment"])
    script, *_ = sys.argv = request["arguments"]
    sys.modules.pop("sitecustomize", None)
    sys.path[:0] = [os.path.dirname(script), request["boot"]]
    import sitecustomize  # noqa: F401

    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=__builtins__)
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    try:
        exec(code, main.__dict__)
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise
    except Exception:
        codes.append(1)
        raise


def _leave(codes: Sequence[int], leave: Callable[[int], None]) -> None:
    """End with the exit code of the program, where it has one: an interruption is a signal."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    for code in codes:
        leave(code & 0xFF)
