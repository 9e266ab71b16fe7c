"""Run a program of the user: its budget, its project, the user's consent, and the report page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torchlint.cli.errors import Unwritten, UserError
from torchlint.cli.options import check_folder_of, say

if TYPE_CHECKING:
    from torchlint.verify.folder import Limits
    from torchlint.verify.session import Verification

Command = TypeVar("Command", bound=Callable[..., Any])

_INSTALL = 'torch is not installed here: pip install "torchlint[verify]"'


def budget_options(command: Command) -> Command:
    """The options that say when the program is stopped, and how."""
    steps = click.option(
        "--max-steps",
        type=click.IntRange(0),
        default=40,
        show_default=True,
        metavar="N",
        help="Stop the program after N optimizer steps, or N backward passes if it has no optimizer. 0: no limit.",
    )
    seconds = click.option(
        "--max-seconds",
        type=click.FloatRange(0),
        default=120.0,
        show_default=True,
        metavar="S",
        help="Stop the program after S seconds. 0: no limit.",
    )
    stop = click.option(
        "--stop",
        type=click.Choice(["soft", "hard"]),
        default="soft",
        show_default=True,
        help="How to stop the program. soft: raise an exception, so that the program can clean up. It may "
        "then save a checkpoint of the short run. hard: stop at once.",
    )
    return steps(seconds(stop(command)))


def announce(text: str) -> None:
    """Print a message on standard error, beside the report."""
    say(f"torchlint: {text}")


def check_command(command: tuple[str, ...], *, takes_notebooks: bool = False) -> None:
    """Refuse a command that cannot work, before anything runs."""
    from shutil import which

    from torchlint.verify.notebooks import notebook_command

    runs = notebook_command(command) if takes_notebooks else None
    if runs is not None and not runs.notebook.is_file():
        raise UserError(f"cannot run {runs.notebook}: there is no such file")
    program = which(command[0] if runs is None else runs.python)
    if program is None:
        hint = f"; did you mean `python {command[0]}`?" if Path(command[0]).suffix == ".py" else ""
        raise UserError(f"cannot run {command[0]}: there is no such program{hint}")
    notebook = next((word for word in command[1:] if Path(word).suffix == ".ipynb"), None)
    if notebook is not None and runs is None and Path(command[0]).stem.startswith("python"):
        raise UserError(
            f"Python does not run {notebook}: make a script of it, `jupyter nbconvert --to script {notebook}`"
        )
    own = Path(program).parent == Path(sys.executable).parent
    if own and find_spec("torch") is None:
        raise UserError(_INSTALL)


def check_report(report: Path | None) -> None:
    """Refuse a page that could not be written."""
    if report is not None and find_spec("matplotlib") is None:
        raise UserError('--report needs matplotlib: pip install "torchlint[verify]"')
    check_folder_of(report)


def root_of(command: tuple[str, ...]) -> Path:
    """The project of the program: the nearest folder above its script with a project file, or the script's folder."""
    script = next((Path(word) for word in command if word.endswith((".py", ".ipynb")) and Path(word).is_file()), None)
    start = Path.cwd() if script is None else script.resolve().parent
    marks = ("pyproject.toml", "torchlint.toml", "setup.py", "setup.cfg", ".git")
    for folder in (start, *start.parents):
        if any((folder / mark).exists() for mark in marks):
            return folder
    return start


def ask(command: tuple[str, ...], limits: Limits, purpose: str, yes: bool, often: str = "") -> None:
    """Show the exact command and ask for consent; without a terminal only `--yes` counts."""
    from shlex import join

    steps, seconds = limits.max_steps, limits.max_seconds
    ends = [f"{steps:,} steps"] * bool(steps) + [f"{seconds:g} seconds"] * bool(seconds)
    until = f", and stops it after {' or '.join(ends)}" if ends else ""
    announce(f"{purpose}. torchlint runs this program{often}{until}: {join(command)}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError("add --yes, because there is no terminal to ask on: the program runs with your permissions")
    if not click.confirm("torchlint: run it?", err=True):
        announce("not run")
        raise click.exceptions.Exit(0)


def write_page(verification: Verification, path: Path) -> None:
    """Write the page of a report."""
    from torchlint.verify.reports import html

    _write(path, html.render(verification))


def write_trace(verification: Verification, path: Path) -> None:
    """Write a trace of the run."""
    from torchlint.verify.reports import trace

    _write(path, trace.render(verification))


def _write(path: Path, text: str) -> None:
    from torchlint.files.atomic_write import WriteError, overwrite

    try:
        overwrite(path, text.encode())
    except WriteError as error:
        raise Unwritten(str(error)) from None
