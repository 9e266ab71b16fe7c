"""`check --watch`: lint again whenever a file, a configuration or a baseline changes, until Ctrl-C."""

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
"""Seconds between two looks, at least."""
_SHARE = 10
"""A look may take one part of so many of the time."""

State = frozenset[tuple[str, int, int]]
"""What changes when a file does, comes or goes: path, time and size of each."""


def watch(run: Callable[[], int], state: Callable[[], State], say: Callable[[str], None]) -> int:
    """Run, and again after each change; the exit code of the last run, once somebody interrupts."""
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
    """The exit code of a run; what the user has to set right is said, and may be right the next time."""
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
    """The state of all that decides about the paths: of the working folder too, from which modules are imported."""
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
