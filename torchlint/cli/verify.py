"""`torchlint verify`: run a program and judge the findings by what happens."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.options import HELP, color_option, errors_of_the_user, is_coloured, list_option, write

if TYPE_CHECKING:
    from torchlint.verify.session import Subject, Verification

_EXIT_CODES = """\b
Exit codes:
  0    nothing confirmed
  1    at least one finding confirmed
  2    wrong usage
  3    the probe never loaded
  4    the program failed before anything could be seen
  130  interrupted (128 and the number of the signal)
"""
_INSTALL = 'torch is not installed here: pip install "torchlint[verify]"'


@click.command(context_settings={**HELP, "ignore_unknown_options": False}, epilog=_EXIT_CODES)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--max-steps",
    type=click.IntRange(0),
    default=40,
    show_default=True,
    metavar="N",
    help="Stop the program after N optimizer steps, or backwards if it has no optimizer; 0: no limit.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Stop the program after S seconds; 0: no limit.",
)
@click.option(
    "--stop",
    type=click.Choice(["soft", "hard"]),
    default="soft",
    show_default=True,
    help="soft: by an exception, so that the program cleans up (and may save a checkpoint of a truncated "
    "run); hard: at once.",
)
@list_option("--select", "Verify findings of these rules only.")
@click.option(
    "--findings",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Verify the findings of this file, as `torchlint --output-format json` wrote it, "
    "instead of linting the program's project first.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Run nothing, and judge by the evidence that a verification left behind when it was killed.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="The form of the report on standard output.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write a page with code, verdicts and plots.",
)
@color_option
@click.option("-y", "--yes", is_flag=True, help="Run the program without asking.")
@click.pass_context
def verify(
    ctx: click.Context,
    command: tuple[str, ...],
    max_steps: int,
    max_seconds: float,
    stop: str,
    select: tuple[str, ...],
    findings: Path | None,
    evidence: Path | None,
    output_format: str,
    report: Path | None,
    color: str,
    yes: bool,
) -> None:
    """Run a program for a few steps, and say of each finding whether it is true.

    The program runs with your rights, as it is: this is no sandbox. Its files are not changed, what it prints goes
    to standard error, and it is stopped when enough has been seen.

    \b
    Examples:
      torchlint verify -- python train.py --epochs 1
      torchlint verify --report page.html -- torchrun --nproc-per-node 2 train.py
      torchlint verify --max-steps 100 -- python -m pkg.train
      torchlint --output-format json . > findings.json   # elsewhere
      torchlint verify --findings findings.json -- python train.py

    \b
    Verdicts:
      confirmed     the defect was seen, with numbers
      refuted       the opposite was seen, in two independent ways
      not-reached   the flagged code did not run
      inconclusive  it ran, but nothing decides; with the reason
    """
    from torchlint.verify.folder import FolderError, Limits
    from torchlint.verify.launch import LaunchError
    from torchlint.verify.reports import render
    from torchlint.verify.session import judge
    from torchlint.verify.session import verify as run

    if bool(command) == bool(evidence):
        raise click.UsageError("give either the program to run, after `--`, or --evidence")
    _check_report(report)
    if command:
        _check_command(command)
    root = _root(command)
    with errors_of_the_user():
        subjects = _given(findings, select) if findings else _linted(root, select)
    try:
        if evidence is not None:
            verification = judge(evidence, subjects)
        else:
            _ask(command, subjects, max_steps, max_seconds, yes)
            verification = run(command, subjects, root, Limits(max_steps, max_seconds, stop), _say)
    except (LaunchError, FolderError) as error:
        raise click.UsageError(str(error)) from None
    if report is not None:
        _write_page(verification, report)
    colour = is_coloured(color)
    write(render(output_format, verification, colour), None, colour)
    ctx.exit(verification.exit_code)


def _say(text: str) -> None:
    click.echo(f"torchlint: {text}", err=True)


def _check_command(command: tuple[str, ...]) -> None:
    """What can be known to go wrong before anything is run."""
    program = shutil.which(command[0])
    if program is None:
        raise click.UsageError(f"cannot run {command[0]}: there is no such program")
    own = Path(program).parent == Path(sys.executable).parent
    if own and find_spec("torch") is None:
        raise click.UsageError(_INSTALL)


def _check_report(report: Path | None) -> None:
    if report is not None and find_spec("matplotlib") is None:
        raise click.UsageError('--report needs matplotlib: pip install "torchlint[verify]"')


def _root(command: tuple[str, ...]) -> Path:
    """The project of the program: the nearest folder above its script that looks like one, or the script's own."""
    script = next((Path(word) for word in command[1:] if word.endswith(".py") and Path(word).is_file()), None)
    start = Path.cwd() if script is None else script.resolve().parent
    marks = ("pyproject.toml", "torchlint.toml", "setup.py", "setup.cfg", ".git")
    for folder in (start, *start.parents):
        if any((folder / mark).exists() for mark in marks):
            return folder
    return start


def _given(path: Path, select: tuple[str, ...]) -> list[Subject]:
    from torchlint.verify import findings_file

    try:
        subjects = findings_file.read(path)
    except findings_file.FindingsError as error:
        raise click.UsageError(str(error)) from None
    names = _names(select)
    return [subject for subject in subjects if not select or subject.finding.name in names]


def _names(select: tuple[str, ...]) -> set[str]:
    """The rules that are selected; raises `UnknownRule`. Without any, the linter is not even imported."""
    if not select:
        return set()
    from torchlint import registry

    return {meta.name for selector in select for meta in registry.find(selector)}


def _linted(root: Path, select: tuple[str, ...]) -> list[Subject]:
    from torchlint.config import Configurations
    from torchlint.discovery import Discovery
    from torchlint.progress import Progress
    from torchlint.runner import Means, run
    from torchlint.settings import Overrides
    from torchlint.verify.session import Subject

    _names(select)
    shown = Path(os.path.relpath(root)) if root.is_relative_to(Path.cwd()) else root
    targets = Discovery(Configurations(Overrides(select))).files([shown])
    with Progress(sys.stderr) as progress:
        outcome = run(targets, progress, means=Means(jobs=None))
    return [Subject(finding, file.source) for file in outcome.files for finding in file.findings]


def _ask(command: tuple[str, ...], subjects: list[Subject], steps: int, seconds: float, yes: bool) -> None:
    """Show exactly what will be run; without a terminal only `--yes` is a consent."""
    limits = [f"{steps:,} steps"] * bool(steps) + [f"{seconds:g} seconds"] * bool(seconds)
    until = f" until {' or '.join(limits)}" if limits else ""
    _say(f"{len(subjects):,} finding{'' if len(subjects) == 1 else 's'} to verify; runs{until}: {shlex.join(command)}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("without a terminal to ask on, --yes is needed: it runs the program with your rights")
    click.confirm("torchlint: run it?", abort=True, err=True)


def _write_page(verification: Verification, path: Path) -> None:
    from torchlint.verify.reports import html

    try:
        path.write_text(html.render(verification), "utf-8")
    except OSError as error:
        _say(f"cannot write {path}: {error.strerror}")
