"""`torchlint verify`: run a program and judge the findings by what happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.errors import UserError, errors_of_the_user
from torchlint.cli.options import HELP, PathType, color_option, is_coloured, list_option, write
from torchlint.cli.programs import announce, ask, budget_options, check_command, check_report, root_of, write_page
from torchlint.outputs import counted

if TYPE_CHECKING:
    from torchlint.results import LintedFile
    from torchlint.verify.session import Subject

_EXIT_CODES = """\b
Exit codes:
  0    no finding confirmed, or there are no findings
  1    at least one finding confirmed
  2    wrong usage
  3    the program ran, but torchlint could not measure anything in it; or
       torchlint could not write a report
  4    the program failed before the first measurement
  130  interrupted with Ctrl-C; after another signal, 128 plus its number
"""


@click.command(
    context_settings={**HELP, "ignore_unknown_options": False},
    epilog=_EXIT_CODES,
    short_help="Run a program, and check which findings are real.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@budget_options
@list_option("--select", "Verify only findings of these rules.")
@click.option("--preview", is_flag=True, help="Turn on preview rules and low-confidence findings.")
@click.option(
    "--findings",
    type=PathType(exists=True, dir_okay=False),
    metavar="FILE",
    help="Verify the findings in this file, the output of `torchlint --output-format json`. Without it, "
    "torchlint first lints the folder with pyproject.toml or .git above the script.",
)
@click.option(
    "--evidence",
    type=PathType(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Report the measurements of a `verify` that was killed. FOLDER is the folder that it printed when it "
    "started. The program does not run again.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="The format of the report on standard output.",
)
@click.option(
    "--report",
    type=PathType(dir_okay=False),
    metavar="FILE.html",
    help="Write a page with code, verdicts and plots.",
)
@click.option(
    "--fixed",
    is_flag=True,
    help="Run the program a second time with all fixes, safe and unsafe, and compare the two runs. "
    "torchlint applies the fixes in memory only.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="With --fixed, run both versions of the program N times, in alternating order.",
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
    preview: bool,
    findings: Path | None,
    evidence: Path | None,
    output_format: str,
    report: Path | None,
    fixed: bool,
    pairs: int,
    color: str,
    yes: bool,
) -> None:
    """Run a program for a few steps, and check whether each finding is real.

    The program runs with your permissions and without a sandbox. torchlint does not change your code. The output of
    the program goes to standard error. torchlint stops the program after --max-steps or --max-seconds. It cannot run
    notebooks.

    \b
    Examples:
      torchlint verify -- python train.py --epochs 1
      torchlint verify --fixed -- python train.py
      torchlint verify --report page.html -- torchrun --nproc-per-node 2 train.py
      torchlint verify --max-steps 100 -- python -m pkg.train
      torchlint --output-format json . > findings.json   # on a laptop
      torchlint verify --findings findings.json -- python train.py

    \b
    Verdicts:
      confirmed     the finding is real: the run showed the bug
      refuted       the finding is false: the line ran often enough, and the
                    bug did not happen
      not-reached   the line did not run
      inconclusive  the run did not decide; the report says why

    With --fixed the program runs twice with the same seed: first as it is, then with the fixes. The second run may
    overwrite files of the first. The verdicts and the exit code are those of the first run. For each fix, the report
    says:

    \b
      proven            with the fix, the bug does not happen
      not-proven        the run does not show that the fix helps
      nothing-to-prove  the finding is not confirmed
    """
    from torchlint.verify.fixed import verify_fixed
    from torchlint.verify.folder import FolderError, Limits
    from torchlint.verify.launch import LaunchError
    from torchlint.verify.reports import render
    from torchlint.verify.session import judge
    from torchlint.verify.session import verify as run

    if fixed and (findings or evidence):
        raise click.UsageError("--fixed lints the project to make fixes: leave out --findings and --evidence")
    if bool(command) == bool(evidence):
        raise click.UsageError("give either the program to run, after `--`, or --evidence")
    check_report(report)
    if command:
        check_command(command)
    root = root_of(command)
    with errors_of_the_user():
        subjects = _given(findings, select) if findings else _linted(root, select, preview, fixed)
    try:
        if evidence is not None:
            verification = judge(evidence, subjects)
        else:
            limits = Limits(max_steps, max_seconds, stop)
            often = "" if not fixed else f" {2 * pairs} times, with and without fixes"
            if subjects:
                ask(command, limits, f"{counted(len(subjects), 'finding')} to verify", yes, often)
            if fixed:
                verification = verify_fixed(command, subjects, root, limits, announce, pairs)
            else:
                verification = run(command, subjects, root, limits, announce)
    except (LaunchError, FolderError) as error:
        raise UserError(str(error)) from None
    colour = is_coloured(color)
    write(render(output_format, verification, colour), None, colour)
    if report is not None:
        write_page(verification, report)
    ctx.exit(verification.exit_code)


def _given(path: Path, select: tuple[str, ...]) -> list[Subject]:
    from torchlint.verify import findings_file

    try:
        subjects = findings_file.read(path)
    except findings_file.FindingsError as error:
        raise UserError(str(error)) from None
    names = _names(select)
    return [subject for subject in subjects if not select or subject.finding.name in names]


def _names(select: tuple[str, ...]) -> set[str]:
    """The selected rules; raises `UnknownRule`. Without a selection, the linter is not imported."""
    if not select:
        return set()
    from torchlint.engine import registry

    return {meta.name for selector in select for meta in registry.find(selector)}


def _linted(root: Path, select: tuple[str, ...], preview: bool, fixed: bool) -> list[Subject]:
    from torchlint.engine.fixer import Fixing
    from torchlint.files.notebook import SUFFIX as NOTEBOOK_SUFFIX
    from torchlint.project.config import Configurations
    from torchlint.project.discovery import Discovery
    from torchlint.project.settings import Overrides
    from torchlint.run.progress import Progress
    from torchlint.run.runner import Means, run

    _names(select)
    shown = Path(os.path.relpath(root)) if root.is_relative_to(Path.cwd()) else root
    found = Discovery(Configurations(Overrides(select, preview=preview))).files([shown])
    targets = [target for target in found if target.path.suffix != NOTEBOOK_SUFFIX]
    with Progress(sys.stderr) as progress:
        outcome = run(targets, progress, Fixing(unsafe=True) if fixed else None, Means(jobs=None))
    return [subject for file in outcome.files for subject in _subjects(file)]


def _subjects(file: LintedFile) -> Iterator[Subject]:
    """The findings of a file on disk, and the fixed file for findings with a fix.

    An earlier fix may have moved a line, so lines only distinguish findings with the same message.
    """
    from torchlint.verify.session import Subject

    lines = {(finding.name, finding.message, finding.fingerprint) for finding in file.applied}
    gone = {(finding.name, finding.message) for finding in file.applied}
    gone -= {(finding.name, finding.message) for finding in file.findings}
    original = file.before or file
    for finding in original.findings:
        said = finding.name, finding.message
        is_fixed = finding.fix is not None and (said in gone or (*said, finding.fingerprint) in lines)
        yield Subject(finding, original.source, fixed=file.source if is_fixed else None)
