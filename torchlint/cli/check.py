"""`torchlint check`: lint files and folders."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchlint.cli.adoption import Adoption, adoption_options
from torchlint.cli.errors import CLEAN, FAILURE, FINDINGS, UserError, errors_of_the_user
from torchlint.cli.options import (
    HELP,
    PathType,
    check_folder_of,
    color_option,
    is_coloured,
    is_read_by_people,
    list_option,
    say,
    write,
)
from torchlint.cli.speed import Speed, speed_options
from torchlint.outputs import FORMATS, Style, render
from torchlint.results import LintedFile

if TYPE_CHECKING:
    from torchlint.engine.fixer import Fixing
    from torchlint.project.config import Configurations
    from torchlint.results import Outcome

STDIN = Path("<stdin>")

EXIT_CODES = """\b
Exit codes:
  0  no findings, or --exit-zero
  1  findings
  2  wrong usage or configuration
  3  a rule crashed, a file could not be opened or written, or the output: what was found is still printed
"""


@dataclass(frozen=True)
class _Options:
    """The options of `check`."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    exclude: tuple[str, ...]
    preview: bool
    force_exclude: bool
    no_follow: bool
    config: Path | None
    isolated: bool
    output_format: str
    output_file: Path | None
    statistics: bool
    color: str
    exit_zero: bool
    quiet: bool
    stdin_filename: Path | None
    fix: bool
    unsafe_fixes: bool
    fix_only: bool
    diff: bool
    baseline: Path | None
    update_baseline: bool
    since: str | None
    add_ignores: bool
    jobs: int | None
    no_cache: bool
    executor: str | None

    @property
    def fixing(self) -> Fixing | None:
        """Which fixes are to be made, if any."""
        from torchlint.engine.fixer import Fixing

        return Fixing(self.unsafe_fixes) if self.fix or self.fix_only or self.diff else None

    @property
    def adoption(self) -> Adoption:
        return Adoption(self.baseline, self.update_baseline, self.since, self.add_ignores, self.quiet)

    @property
    def speed(self) -> Speed:
        return Speed(self.jobs, self.no_cache, self.executor, self.quiet)

    def check(self, *, stdin: bool) -> None:
        """Refuse what contradicts itself; raises `UsageError`."""
        if self.isolated and self.config is not None:
            raise click.UsageError("--isolated means no configuration file, and --config names one: leave one out")
        if self.stdin_filename is not None and not stdin:
            raise click.UsageError("--stdin-filename names what `-` reads: add `-`, or leave it out")
        if self.statistics and self.output_format not in ("text", "concise"):
            raise click.UsageError("--statistics is a table of its own: leave out --output-format")
        if self.unsafe_fixes and self.fixing is None:
            raise click.UsageError("--unsafe-fixes says which fixes: add --fix, --fix-only or --diff")
        if self.diff and (self.fix or self.fix_only):
            raise click.UsageError("--diff shows what --fix would write: leave one out")
        check_folder_of(self.output_file)
        self.adoption.check(stdin=stdin)
        self.speed.check()
        if self.fixing and self.adoption.narrows:
            raise click.UsageError(f"fixes are made for all findings: leave out {self.adoption.narrows}")


@click.command(context_settings=HELP, epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=PathType(allow_dash=True))
@list_option("--select", "Look for these only; rules by name, code, code prefix or category, or `all`.")
@list_option("--ignore", "Do not look for these.")
@list_option("--extend-select", "Look for these as well.")
@list_option("--exclude", "Leave out files and folders that match; patterns as in .gitignore.", "PATTERNS")
@click.option("--preview", is_flag=True, help="Take in rules that are not stable yet.")
@click.option("--force-exclude", is_flag=True, help="Leave out excluded files even if they are named here.")
@click.option(
    "--config",
    type=PathType(exists=True, dir_okay=False),
    help="Use this configuration file for all files.",
)
@click.option("--no-follow", is_flag=True, help="Look at each file alone, whatever it imports of the repository.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option(
    "--output-format",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="; ".join(f"{name}: {meaning}" for name, meaning in FORMATS.items()),
)
@click.option("--output-file", type=PathType(dir_okay=False), help="Write the findings to this file.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them.")
@color_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only: no summary, warnings or progress.")
@click.option(
    "--stdin-filename", type=PathType(), metavar="PATH", help="The name of what `-` reads, for its configuration."
)
@click.option("--fix", is_flag=True, help="Write the fixes that are safe into the files, and list what is left.")
@click.option("--unsafe-fixes", is_flag=True, help="Take fixes that may change numbers, memory or control flow too.")
@click.option("--fix-only", is_flag=True, help="Like --fix, but list nothing.")
@click.option("--diff", is_flag=True, help="Show what the fixes would change, and write nothing.")
@adoption_options
@speed_options
@click.pass_context
def check(ctx: click.Context, /, paths: tuple[Path, ...], **values: Any) -> None:
    """Lint files, and all .py and .ipynb files below folders that Git would not ignore.

    PATH is a file or folder, by default this folder; `-` reads one file from standard input.

    \b
    On an old code base, one of these:
      torchlint --baseline torchlint-baseline.json --update-baseline   writes down what there is
      torchlint --baseline torchlint-baseline.json                     finds what is new
      torchlint --since main                                           finds what this branch did
      torchlint --add-ignores                                          excuses what there is, in the code
    """
    options = _Options(**values)
    options.check(stdin=Path("-") in paths)
    with errors_of_the_user():
        outcome = _outcome(paths or (Path("."),), options)
    if options.fixing is None:
        _report(outcome, options)
        ctx.exit(_exit_code(outcome, options.exit_zero))
    ctx.exit(_fix(outcome, options, from_stdin=paths == (Path("-"),)))


def _report(outcome: Outcome, options: _Options, *, err: bool = False) -> None:
    style = Style(options.output_file is None and is_coloured(options.color), not options.quiet)
    text = render("statistics" if options.statistics else options.output_format, outcome, style)
    write(text, options.output_file, style.colour, err=err)


def _fix(outcome: Outcome, options: _Options, *, from_stdin: bool) -> int:
    """Write the fixes, or show them; what is left is reported. Standard input is fixed on its way to the output."""
    from torchlint.cli.fixing import diff, summary, write_fixes

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
    left = replace(outcome, files=tuple(file for file in outcome.files if file.findings))
    if options.diff:
        changes = any(file.before is not None for file in outcome.files)
        return max(_exit_code(left, exit_zero=True), FINDINGS if changes and not options.exit_zero else CLEAN)
    if not options.fix_only:
        _report(left, options, err=from_stdin)
    return _exit_code(left, options.exit_zero or options.fix_only)


def _outcome(paths: tuple[Path, ...], options: _Options) -> Outcome:
    from torchlint.project.config import Configurations
    from torchlint.project.settings import Overrides

    overrides = Overrides(
        options.select,
        options.ignore,
        options.extend_select,
        options.preview,
        options.force_exclude,
        not options.no_follow,
    )
    configurations = Configurations(overrides, file=options.config, isolated=options.isolated)
    if Path("-") in paths:
        if len(paths) > 1:
            raise click.UsageError("`-` cannot be combined with other paths")
        return _outcome_of_stdin(options, configurations)
    return _outcome_of_files(paths, options, configurations)


def _outcome_of_files(paths: tuple[Path, ...], options: _Options, configurations: Configurations) -> Outcome:
    from torchlint.project.discovery import Discovery
    from torchlint.run.progress import Progress
    from torchlint.run.runner import run

    discovery = Discovery(configurations, options.exclude)
    targets = discovery.files(paths)
    warnings = discovery.warnings if targets else [*discovery.warnings, "no Python files found under the given paths"]
    if not options.quiet:
        for warning in warnings:
            say(f"warning: {warning}")
    with options.speed.means(configurations) as means, Progress(sys.stderr, quiet=options.quiet) as progress:
        if options.fixing:
            return run(targets, progress, options.fixing, means)
        return options.adoption.run(targets, progress, means)


def _outcome_of_stdin(options: _Options, configurations: Configurations) -> Outcome:
    from torchlint.files.source import SourceFile
    from torchlint.project.discovery import Discovery
    from torchlint.run.runner import lint_source, outcome_of

    path = options.stdin_filename or STDIN
    settings = Discovery(configurations, options.exclude).settings_of(path)
    source = SourceFile(str(path), standard_input())
    if settings is None:
        return outcome_of([LintedFile(source, ())] if options.fixing else [], 0, 0)
    linted = lint_source(source, settings.selection(path), options.fixing)
    files = [linted] if linted.findings or options.fixing else []
    return options.adoption.of_stdin(outcome_of(files, 1, int(linted.looked_into)))


def standard_input() -> bytes:
    """All that is written there; raises `UsageError`."""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"cannot read standard input: {error.strerror}") from None


def _exit_code(outcome: Outcome, exit_zero: bool) -> int:
    from torchlint.engine.registry import INTERNAL_ERROR

    if outcome.unwritten or any(finding.name == INTERNAL_ERROR.name for finding in outcome.findings):
        return FAILURE
    return FINDINGS if outcome.findings and not exit_zero else CLEAN
