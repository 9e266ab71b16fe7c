"""`torchlint watch`: run a program and report problems."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.errors import UserError, errors_of_the_user
from torchlint.cli.options import HELP, PathType, check_folder_of, color_option, is_coloured, list_option, write
from torchlint.cli.programs import (
    announce,
    ask,
    budget_options,
    check_command,
    check_report,
    root_of,
    write_page,
    write_trace,
)
from torchlint.outputs import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchlint.files.source import SourceFile
    from torchlint.verify.notebooks import NotebookCommand
    from torchlint.verify.watch.catalogue import CheckInfo
    from torchlint.verify.watch.session import Static

_STEPS_OF_ONE_BATCH = 200

_EXIT_CODES = """\b
Exit codes:
  0    no problem found
  1    a problem found, or the program hangs: it takes no optimizer step in
       the second half of --max-seconds
  2    wrong usage
  3    torchlint could not measure anything: no training step was seen; or it
       could not write a report
  4    the program failed, and no check explains it; if it raised an error,
       the report shows the error and its line
  130  interrupted with Ctrl-C; after another signal, 128 plus its number
"""


@click.command(
    context_settings={**HELP, "ignore_unknown_options": False},
    epilog=_EXIT_CODES,
    short_help="Run a program, and report lines that harm training.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@budget_options
@list_option("--select", "Use only these checks and rules, by name or code. This also turns on checks that are off.")
@click.option("--list", "is_list", is_flag=True, help="Describe each check: what it looks for, and when it reports.")
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
    help="Write a page with code, problems and plots.",
)
@click.option(
    "--trace",
    type=PathType(dir_okay=False),
    metavar="FILE.json",
    help="Write a timeline of data loading, forward and backward passes and steps. Open it at ui.perfetto.dev.",
)
@click.option(
    "--one-batch",
    is_flag=True,
    help="Repeat the first batch of each DataLoader for 200 steps, and report whether the model learns it.",
)
@click.option(
    "--twice",
    "is_twice",
    is_flag=True,
    help="Run the program twice with the same seed, and report where the two runs start to differ.",
)
@click.option(
    "--compare",
    type=PathType(exists=True, dir_okay=False),
    metavar="FILE",
    help="Report only problems that are not in FILE, an earlier report with --format json.",
)
@color_option
@click.option("-y", "--yes", is_flag=True, help="Run the program without asking.")
@click.pass_context
def watch(
    ctx: click.Context,
    command: tuple[str, ...],
    max_steps: int,
    max_seconds: float,
    stop: str,
    select: tuple[str, ...],
    is_list: bool,
    output_format: str,
    report: Path | None,
    trace: Path | None,
    one_batch: bool,
    is_twice: bool,
    compare: Path | None,
    color: str,
    yes: bool,
) -> None:
    """Run a program for a few steps, and report the lines that harm training.

    `watch` finds problems that the linter cannot see in the code. The program runs with your permissions and without a
    sandbox. torchlint does not change your code. The output of the program goes to standard error. torchlint stops the
    program after --max-steps or --max-seconds. A notebook runs in its own folder, without its `!` and `%` lines.

    \b
    Examples:
      torchlint watch -- python train.py --epochs 1
      torchlint watch --report page.html -- torchrun --nproc-per-node 2 train.py
      torchlint watch --max-steps 200 -- python -m pkg.train
      torchlint watch --one-batch -- python train.py
      torchlint watch -- notebook.ipynb
      torchlint watch --compare main.json -- python train.py
      torchlint watch --list

    \b
    Verdicts:
      confirmed     the problem is real: the run showed it
      inconclusive  the run did not decide; the report says why
      refuted       a finding of the linter is false: its line ran often enough,
                    and the bug did not happen
    """
    from torchlint.verify import notebooks
    from torchlint.verify.folder import Limits
    from torchlint.verify.launch import LaunchError
    from torchlint.verify.reports import render
    from torchlint.verify.watch import comparing
    from torchlint.verify.watch.session import watch as run

    if is_list:
        write(_listed(), None, is_coloured(color))
        return
    if not command:
        raise click.UsageError("give the program to run, after `--`")
    checks, rules = _selected(select)
    check_report(report)
    check_folder_of(trace)
    check_command(command, takes_notebooks=True)
    root = root_of(command)
    with errors_of_the_user():
        static = _static(root, notebooks.notebook_command(command))
    names = [check.name for check in checks] + ["one-batch"] * one_batch + ["differing-runs"] * is_twice
    if one_batch and _is_default(ctx, "max_steps"):
        max_steps = _STEPS_OF_ONE_BATCH
    limits = Limits(max_steps, max_seconds, stop)
    ask(command, limits, f"{counted(len(static.sources), 'file')} in the project", yes, " twice" * is_twice)
    try:
        known = comparing.read(compare) if compare is not None else None
        with notebooks.runnable(command) as program:
            seen = run(program, static, root, limits, [*dict.fromkeys(names)], announce, is_traced=trace is not None)
        seen = replace(seen, command=tuple(command))
    except comparing.ReportError as error:
        raise UserError(str(error)) from None
    except LaunchError as error:
        raise UserError(str(error)) from None
    if select:
        wanted = {*rules, *names}
        seen = seen.only(lambda judged: judged.finding.name in wanted)
    if known is not None:
        seen = comparing.compared(seen, known)
    colour = is_coloured(color)
    write(render(output_format, seen, colour), None, colour)
    if report is not None:
        write_page(seen, report)
    if trace is not None:
        write_trace(seen, trace)
    ctx.exit(seen.exit_code)


def _is_default(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.DEFAULT


def _listed() -> str:
    """The checks with their documentation."""
    from torchlint.verify.watch.catalogue import checks
    from torchlint.wrapping import terminal_width, wrapped

    width = terminal_width()
    parts = []
    for check in checks():
        state = "" if check.is_on else " (off; turn on with --select)"
        lines = wrapped(check.documentation.splitlines(), width and width - 4)
        parts.append(f"{check.code} {check.name}{state}\n{_indented(lines)}\n")
    return "\n".join(parts)


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" if line else "" for line in lines)


def _selected(select: Sequence[str]) -> tuple[list[CheckInfo], set[str]]:
    """The selected checks and rules; raises `UsageError`."""
    from torchlint.engine import registry
    from torchlint.verify.watch.catalogue import checks

    if not select:
        return [check for check in checks() if check.is_on], set()
    chosen, rules = [], set()
    for selector in select:
        named = [check for check in checks() if selector.lower() in (check.name, check.code.lower())]
        chosen += named
        try:
            rules |= {meta.name for meta in registry.find(selector)}
        except registry.UnknownRule as error:
            if not named:
                raise UserError(str(error)) from None
    return [*dict.fromkeys(chosen)], rules


def _static(root: Path, runs: NotebookCommand | None) -> Static:
    """The files of the project with the notebook that runs, and the linter's findings in them."""
    from torchlint.engine import registry
    from torchlint.project.config import Configurations
    from torchlint.project.discovery import Discovery
    from torchlint.project.settings import Overrides
    from torchlint.run.progress import Progress
    from torchlint.run.runner import Means, run
    from torchlint.verify.watch.catalogue import checks
    from torchlint.verify.watch.session import Static

    shown = Path(os.path.relpath(root)) if root.is_relative_to(Path.cwd()) else root
    targets = [
        target
        for target in Discovery(Configurations(Overrides(preview=True))).files([shown])
        if target.path.suffix == ".py" or (runs is not None and target.path.samefile(runs.notebook))
    ]
    with Progress(sys.stderr) as progress:
        outcome = run(targets, progress, None, Means(jobs=None))
    findings = [finding for file in outcome.files for finding in file.findings]
    codes = {info.name: info.code for info in checks()} | {meta.name: meta.code for meta in registry.metas()}
    previews = frozenset(meta.name for meta in registry.metas() if meta.preview)
    return Static([*_sources(target.path for target in targets)], findings, codes, previews)


def _sources(paths: Iterable[Path]) -> Iterator[SourceFile]:
    """The readable files; the linter reports the others."""
    from torchlint.files.source import SourceFile

    for path in paths:
        try:
            yield SourceFile.read(path)
        except OSError:
            continue
