"""`torchlint check`: lint files and folders."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchlint.cli import showing
from torchlint.cli.adoption import Adoption, adoption_options
from torchlint.cli.choosing import Choosing, choosing_options, origins
from torchlint.cli.completing import complete_paths
from torchlint.cli.errors import CLEAN, FAILURE, FINDINGS, UserError, errors_of_the_user
from torchlint.cli.notices import show_notices
from torchlint.cli.options import (
    HELP,
    PathType,
    check_folder_of,
    color_option,
    is_coloured,
    is_read_by_people,
    say,
    variable,
    write,
)
from torchlint.cli.showing import showing_options
from torchlint.cli.speed import Speed, speed_options
from torchlint.outputs import FORMATS, Style, counted, render
from torchlint.results import LintedFile
from torchlint.syntax.gc_pause import collector_paused

if TYPE_CHECKING:
    from torchlint.engine.fixer import Fixing
    from torchlint.project.config import Configurations
    from torchlint.project.discovery import Discovery
    from torchlint.project.settings import Settings
    from torchlint.results import Outcome

STDIN = Path("<stdin>")

EXIT_CODES = """\b
Exit codes:
  0  no findings, or --exit-zero
  1  findings
  2  wrong usage or configuration
  3  torchlint could not finish: a rule crashed, memory ran out, or a
     file could not be written; it still prints the findings that it has
"""


@dataclass(frozen=True)
class _Options:
    """The options of `check`."""

    choosing: Choosing
    exclude: tuple[str, ...]
    output_format: str | None
    output_file: Path | None
    statistics: bool
    color: str
    exit_zero: bool
    quiet: bool
    verbose: bool
    watch: bool
    show_files: bool
    show_settings: bool
    stdin_filename: Path | None
    fix: bool
    unsafe_fixes: bool
    fix_only: bool
    show_fixes: bool
    diff: bool
    baseline: Path | None
    no_baseline: bool
    update_baseline: bool
    since: str | None
    add_ignores: bool
    reason: str | None
    jobs: int | None
    no_cache: bool
    cache_dir: Path | None
    executor: str | None

    def configured(self, settings: Settings) -> _Options:
        """The options, completed by the configuration of the working folder."""
        baseline = self.baseline or (None if self.no_baseline else settings.baseline)
        origin = "--baseline" if self.baseline else f"{settings.origins.get('baseline', '')}: baseline"
        found = replace(self, output_format=self.output_format or settings.output_format, baseline=baseline)
        found.adoption.check_baseline(origin)
        return found

    def _writes(self, stdin: bool) -> str:
        """The option that runs only once, if there is one."""
        once = {
            "`-`": stdin,
            "fixes": self.fixing,
            "--add-ignores": self.add_ignores,
            "--update-baseline": self.update_baseline,
            "--show-files": self.show_files,
            "--show-settings": self.show_settings,
        }
        return next((name for name, is_given in once.items() if is_given), "")

    @property
    def fixing(self) -> Fixing | None:
        """The fixes to make, if any."""
        if not (self.fix or self.fix_only or self.show_fixes or self.diff):
            return None
        from torchlint.engine.fixer import Fixing

        return Fixing(self.unsafe_fixes)

    @property
    def adoption(self) -> Adoption:
        return Adoption(self.baseline, self.update_baseline, self.since, self.add_ignores, self.reason, self.quiet)

    @property
    def speed(self) -> Speed:
        return Speed(self.jobs, self.no_cache, self.cache_dir, self.executor, self.quiet)

    def check(self, *, stdin: bool) -> None:
        """Refuse contradictory options; raises `UsageError`."""
        self.choosing.check()
        if self.stdin_filename is not None and not stdin:
            raise click.UsageError("--stdin-filename needs `-`: add it, or leave out --stdin-filename")
        if self.statistics and self.output_format not in (None, "text", "concise", "json"):
            raise click.UsageError("--statistics prints a table or JSON: leave out --output-format")
        if self.unsafe_fixes and self.fixing is None:
            raise click.UsageError("--unsafe-fixes needs --fix, --fix-only, --show-fixes or --diff")
        check_folder_of(self.output_file)
        self.adoption.check(stdin, self.no_baseline)
        self.speed.check()
        if self.show_files and self.show_settings:
            raise click.UsageError("--show-files and --show-settings exclude each other")
        if self.quiet and self.verbose:
            raise click.UsageError("--quiet and --verbose exclude each other")
        if self.watch and (writes := self._writes(stdin)):
            raise click.UsageError(f"--watch cannot be used with {writes}")
        if stdin and (self.show_files or self.show_settings):
            raise click.UsageError("--show-files and --show-settings need files: leave out `-`")
        if self.fixing:
            self.adoption.check_fixing()


VARIABLES = """\b
Environment variables (options override them):
  TORCHLINT_SELECT, _IGNORE, _EXTEND_SELECT, _FIXABLE, _UNFIXABLE, _EXCLUDE,
  _PER_FILE_IGNORES, _PREVIEW, _CONFIG, _ISOLATED, _BASELINE, _OUTPUT_FORMAT,
  _OUTPUT_FILE, _COLOR, _JOBS, _EXECUTOR, _NO_CACHE, _CACHE_DIR
"""
_FORMATS = "\b\nOutput formats:\n" + "".join(f"  {name:<12}{meaning}\n" for name, meaning in FORMATS.items())


@click.command(
    context_settings=HELP, epilog=f"{_FORMATS}\n{EXIT_CODES}\n{VARIABLES}", short_help="Lint files and folders."
)
@click.argument(
    "paths",
    nargs=-1,
    metavar="[PATH]...",
    type=PathType(allow_dash=True, readable=False),
    shell_complete=complete_paths,
)
@choosing_options
@click.option(
    "--output-format",
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help="The format of the findings: see the list below. The default is text.",
    **variable("output-format"),
)
@click.option(
    "-o",
    "--output-file",
    type=PathType(dir_okay=False),
    help="Write the findings to this file, not to the terminal.",
    **variable("output-file"),
)
@click.option(
    "--statistics",
    is_flag=True,
    help="Count the findings of each rule instead of listing them. --output-format json prints the counts as JSON.",
)
@showing_options
@color_option
@click.option("-e", "--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("-q", "--quiet", is_flag=True, help="Print only findings: no summary, warnings or progress.")
@click.option(
    "--stdin-filename",
    type=PathType(),
    metavar="PATH",
    help="The file name to report for standard input. Its folder decides which configuration applies.",
)
@click.option("--fix", is_flag=True, help="Apply the safe fixes, then list the findings that remain.")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="With --fix, --fix-only, --show-fixes or --diff: also apply unsafe fixes. They may change the results of "
    "training, as most corrections of bugs do.",
)
@click.option("--fix-only", is_flag=True, help="Like --fix, but list no findings.")
@click.option("--show-fixes", is_flag=True, help="Like --fix, and also list the fixed findings of each file.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, but write nothing.")
@adoption_options
@speed_options
@click.pass_context
def check(ctx: click.Context, /, paths: tuple[Path, ...], **values: Any) -> None:
    """Lint the given files. In folders, lint all .py and .ipynb files that Git does not ignore.

    PATH is a file or folder. The default is the current folder. `-` reads one file from standard input.

    \b
    For an old code base, use one of these:
      torchlint --baseline old.json --update-baseline   store all findings, then:
      torchlint --baseline old.json                     report new findings
      torchlint --since main                            report what a branch adds
      torchlint --add-ignores                           suppress all findings
    """
    chosen = {field.name: values.pop(field.name) for field in fields(Choosing) if field.name in values}
    options = _Options(Choosing(**chosen, said=origins(ctx)), **values)
    options.check(stdin=Path("-") in paths)
    paths = paths or (Path("."),)
    ctx.exit(_watch(paths, options) if options.watch else _run(paths, options))


def _run(paths: tuple[Path, ...], options: _Options) -> int:
    """Lint once, and report or fix the findings; return the exit code."""
    with errors_of_the_user(), collector_paused():
        configurations = options.choosing.configurations()
        if options.show_files or options.show_settings:
            _show(paths, options, configurations)
            return CLEAN
        options = options.configured(configurations.of_folder(Path.cwd()))
        outcome = _outcome(paths, options, configurations)
    code = _show_outcome(outcome, options, from_stdin=paths == (Path("-"),))
    if not options.quiet:
        show_notices(file.before or file if options.diff else file for file in outcome.noticed)
    return code


def _show_outcome(outcome: Outcome, options: _Options, *, from_stdin: bool) -> int:
    """Report the findings, or fix them; return the exit code."""
    if options.fixing is not None:
        return _fix(outcome, options, from_stdin=from_stdin)
    _report(outcome, options)
    return _exit_code(outcome, options.exit_zero)


def _watch(paths: tuple[Path, ...], options: _Options) -> int:
    """Lint after each change of a file, a configuration or the baseline."""
    from torchlint.cli.watching import state_of, watch

    named = [item for item in (options.baseline, *options.choosing.config) if isinstance(item, Path)]
    tell = (lambda text: None) if options.quiet else say
    return watch(lambda: _run(paths, options), lambda: state_of(paths, options.choosing.configurations, named), tell)


def _report(outcome: Outcome, options: _Options, *, err: bool = False) -> None:
    form = options.output_format or "text"
    made = _made() if form == "html" else ""
    style = Style(options.output_file is None and is_coloured(options.color), not options.quiet, made)
    if options.statistics:
        form = "statistics_json" if form == "json" else "statistics"
    text = render(form, outcome, style)
    write(text, options.output_file, style.colour, err=err)


def _made() -> str:
    """The commit and the time of a report; SOURCE_DATE_EPOCH overrides the time."""
    from datetime import datetime, timezone

    from torchlint.adoption.repository import commit_of

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isdecimal() and len(epoch) < 12 else time.time()
    when = f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC"
    commit = commit_of(Path.cwd())
    return f"commit {commit}, {when}" if commit else when


def _fix(outcome: Outcome, options: _Options, *, from_stdin: bool) -> int:
    """Write the fixes, or show them, and report the remaining findings. Fixed standard input goes to the output."""
    from torchlint.cli.fixing import diff, listing, summary, unsafe_fixes, write_fixes

    if options.diff:
        colour = options.output_file is None and is_coloured(options.color)
        exact = not is_read_by_people(options.output_file)
        write(diff(outcome, colour, exact=exact), options.output_file, colour or exact)
    elif from_stdin:
        write(outcome.files[0].source.data, None, colour=False)
    else:
        outcome = write_fixes(outcome)
    if not options.quiet:
        say(summary(outcome, "Would fix" if options.diff else "Fixed"))
    if options.show_fixes and (fixed := listing(outcome)):
        say(fixed)
    left = replace(outcome, files=tuple(file for file in outcome.files if file.findings))
    unsafe = 0 if options.unsafe_fixes else unsafe_fixes(left)
    if unsafe and not options.quiet:
        has = "has an unsafe fix" if unsafe == 1 else "have unsafe fixes"
        say(f"{counted(unsafe, 'finding')} {has}, which --unsafe-fixes {'shows' if options.diff else 'applies'}.")
    if options.diff:
        can_fix = unsafe or any(file.before is not None for file in outcome.files)
        return max(_exit_code(left, exit_zero=True), FINDINGS if can_fix and not options.exit_zero else CLEAN)
    if not options.fix_only:
        _report(left, options, err=from_stdin)
    return _exit_code(left, options.exit_zero or options.fix_only)


def _show(paths: tuple[Path, ...], options: _Options, configurations: Configurations) -> None:
    """Print the files that would be linted, or the settings of each path."""
    discovery = _discovery(options, configurations)
    if options.show_files:
        text = showing.files(discovery.files(paths))
        _warn(discovery.warnings, options)
    else:
        text = "\n".join(showing.settings(path, discovery) for path in paths)
    write(text, options.output_file, colour=False)


def _discovery(options: _Options, configurations: Configurations) -> Discovery:
    from torchlint.project.discovery import Discovery

    return Discovery(configurations, options.exclude, say if options.verbose else None)


def _warn(warnings: Iterable[str], options: _Options) -> None:
    if not options.quiet:
        for warning in warnings:
            say(f"warning: {warning}")


def _outcome(paths: tuple[Path, ...], options: _Options, configurations: Configurations) -> Outcome:
    if Path("-") not in paths:
        return _outcome_of_files(paths, options, configurations)
    if len(paths) > 1:
        raise click.UsageError("`-` cannot be combined with other paths")
    return _outcome_of_stdin(options, configurations)


def _outcome_of_files(paths: tuple[Path, ...], options: _Options, configurations: Configurations) -> Outcome:
    from torchlint.run.progress import Progress

    discovery = _discovery(options, configurations)
    targets = discovery.files(paths)
    _warn([*discovery.warnings, *["no Python files found under the given paths"] * (not targets)], options)
    with options.speed.means(configurations) as means, Progress(sys.stderr, quiet=options.quiet) as progress:
        outcome = options.adoption.run(targets, progress, means, options.fixing)
    if options.fixing is not None or not any(finding.elsewhere for finding in outcome.findings):
        return outcome
    from torchlint.run.places import at_causes

    return at_causes(outcome, targets)


def _outcome_of_stdin(options: _Options, configurations: Configurations) -> Outcome:
    from torchlint.files.source import SourceFile
    from torchlint.project.discovery import Target
    from torchlint.run.runner import lint_source, outcome_of

    path = options.stdin_filename or STDIN
    settings = _discovery(options, configurations).settings_of(path)
    source = SourceFile(str(path), standard_input())
    if settings is None:
        return outcome_of([LintedFile(source, ())] if options.fixing else [], 0, [])
    linted = lint_source(source, settings.selection(path), None if options.baseline else options.fixing)
    files = [linted] if linted.findings or options.fixing else []
    outcome = outcome_of(files, 1, [linted.tally], [linted])
    return options.adoption.of_stdin(outcome, [Target(path, settings)], options.fixing)


def standard_input() -> bytes:
    """The content of standard input; raises `UsageError`."""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"cannot read standard input: {error.strerror}") from None


def _exit_code(outcome: Outcome, exit_zero: bool) -> int:
    from torchlint.engine.registry import INTERNAL_ERROR

    if outcome.unwritten or any(finding.name == INTERNAL_ERROR.name for finding in outcome.findings):
        return FAILURE
    return FINDINGS if outcome.findings and not exit_zero else CLEAN
