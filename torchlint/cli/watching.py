"""`check --watch`: lint again after each change, until Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.errors import CLEAN, show
from torchlint.outputs import counted

if TYPE_CHECKING:
    from torchlint.project.config import Configurations

_PAUSE = 0.5
"""Minimum number of seconds between two checks for changes."""
_SHARE = 10
"""A check may use one part in this many of the time."""

State = frozenset[tuple[str, int, int]]
"""The state of the files: path, time and size of each."""


def watch(run: Callable[[], int], state: Callable[[], State], say: Callable[[str], None]) -> int:
    """Run, and run again after each change; return the exit code of the last run after an interrupt."""
    code = CLEAN
    try:
        while True:
            before = state()
            code = _code(run)
            say(f"watching {counted(len(before), 'file')}; Ctrl-C ends")
            _wait(before, state)
            click.clear()
    except (KeyboardInterrupt, click.Abort):
        return code


def _code(run: Callable[[], int]) -> int:
    """The exit code of a run; errors that the user can repair are printed and do not end the loop."""
    try:
        return run()
    except click.ClickException as error:
        show(error)
        return error.exit_code


def _wait(before: State, state: Callable[[], State]) -> None:
    pause = _PAUSE
    while True:
        time.sleep(pause)
        start = time.monotonic()
        if state() != before:
            return
        pause = max(_PAUSE, _SHARE * (time.monotonic() - start))


def state_of(paths: Iterable[Path], configurations: Callable[[], Configurations], others: Iterable[Path]) -> State:
    """The state of every file that affects the result, including the working folder, which imports start from."""
    from torchlint.project.config import ConfigError
    from torchlint.project.discovery import Discovery

    known: dict[str, None] = dict.fromkeys(map(str, others))
    try:
        for target in Discovery(configurations()).files([*paths, Path()]):
            known[str(target.path)] = None
            known.update(dict.fromkeys(map(str, target.settings.files)))
    except (ConfigError, FileNotFoundError) as error:
        known[str(error)] = None
    return frozenset(map(_state, known))


def _state(path: str) -> tuple[str, int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return path, 0, 0
    return path, found.st_mtime_ns, found.st_size
