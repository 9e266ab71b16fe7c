"""The command line: parse, call, print, exit code. Imports what it needs when it needs it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from torchlint.outputs import FORMATS, Style, render

if TYPE_CHECKING:
    from torchlint.config import Configurations
    from torchlint.finding import Meta
    from torchlint.outputs import Outcome

CLEAN, FINDINGS, USAGE_ERROR, INTERNAL_ERROR = range(4)
INTERRUPTED = 130
STDIN = "<stdin>"

Command = TypeVar("Command", bound=Callable[..., Any])

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_EXIT_CODES = """\b
Exit codes:
  0  no findings, or --exit-zero
  1  findings
  2  wrong usage or configuration
  3  a rule crashed; what the others found is still printed
"""


class _CheckByDefault(click.Group):
    """A group in which `torchlint src/` means `torchlint check src/`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, "--version", *_HELP["help_option_names"]}  # type: ignore[misc]
        if not args or args[0] not in own:
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_CheckByDefault, context_settings=_HELP, epilog=_EXIT_CODES)
@click.version_option(package_name="torchlint", message="torchlint %(version)s")
def cli() -> None:
    """Find what makes PyTorch training code train wrongly, leak memory or run slowly.

    `torchlint PATH` is short for `torchlint check PATH`; `torchlint check --help` lists all options.
    The code is read, never imported or run.

    \b
    Examples:
      torchlint                             everything below this folder
      torchlint src/ train.py               some folders and files
      torchlint --select TL2,correctness .  rules by name, code, prefix or category
      torchlint --output-format github .    for a workflow
      torchlint explain missing-zero-grad   what a rule finds, why, and what to do

    \b
    To excuse a line:   loss.backward()  # torchlint: ignore[missing-zero-grad]
    To configure:       [tool.torchlint] in pyproject.toml, or torchlint.toml
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@dataclass(frozen=True)
class _Options:
    """The options of `check`."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    exclude: tuple[str, ...]
    preview: bool
    force_exclude: bool
    config: Path | None
    isolated: bool
    output_format: str
    output_file: Path | None
    statistics: bool
    color: str
    exit_zero: bool
    quiet: bool
    stdin_filename: str | None


def _comma_list(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.strip() for value in values for item in value.split(",") if item.strip())


def _list_option(name: str, help: str, metavar: str = "RULES") -> Callable[[Command], Command]:
    return click.option(name, multiple=True, callback=_comma_list, metavar=metavar, help=help)


_color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set, or if FORCE_COLOR is.",
)


@cli.command(context_settings=_HELP, epilog=_EXIT_CODES)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path, allow_dash=True))
@_list_option("--select", "Look for these only; rules by name, code, code prefix or category, or `all`.")
@_list_option("--ignore", "Do not look for these.")
@_list_option("--extend-select", "Look for these as well.")
@_list_option("--exclude", "Leave out files and folders that match; patterns as in .gitignore.", "PATTERNS")
@click.option("--preview", is_flag=True, help="Take in rules that are not stable yet.")
@click.option("--force-exclude", is_flag=True, help="Leave out excluded files even if they are named here.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Use this configuration file for all files.",
)
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option(
    "--output-format",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="; ".join(f"{name}: {meaning}" for name, meaning in FORMATS.items()),
)
@click.option("--output-file", type=click.Path(path_type=Path), help="Write the findings to this file.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them.")
@_color_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings only: no summary, warnings or progress.")
@click.option("--stdin-filename", metavar="PATH", help="The name of what `-` reads, for its configuration.")
@click.pass_context
def check(ctx: click.Context, /, paths: tuple[Path, ...], **values: Any) -> None:
    """Lint files, and all .py files below folders that Git would not ignore.

    PATH is a file or folder, by default this folder; `-` reads one file from standard input.
    """
    options = _Options(**values)
    if options.statistics and options.output_format not in ("text", "concise"):
        raise click.UsageError("--statistics is a table of its own: leave out --output-format")
    with _errors_of_the_user():
        outcome = _outcome(paths or (Path("."),), options)
    style = Style(options.output_file is None and _is_coloured(options.color), not options.quiet)
    text = render("statistics" if options.statistics else options.output_format, outcome, style)
    _write(text, options.output_file, style.colour)
    ctx.exit(_exit_code(outcome, options.exit_zero))


def _outcome(paths: tuple[Path, ...], options: _Options) -> Outcome:
    from torchlint.config import Configurations
    from torchlint.settings import Overrides

    overrides = Overrides(options.select, options.ignore, options.extend_select, options.preview, options.force_exclude)
    configurations = Configurations(overrides, file=options.config, isolated=options.isolated)
    if Path("-") in paths:
        if len(paths) > 1:
            raise click.UsageError("`-` cannot be combined with other paths")
        return _outcome_of_stdin(options, configurations)
    return _outcome_of_files(paths, options, configurations)


def _outcome_of_files(paths: tuple[Path, ...], options: _Options, configurations: Configurations) -> Outcome:
    from torchlint.discovery import Discovery
    from torchlint.progress import Progress
    from torchlint.runner import run

    targets = Discovery(configurations, options.exclude).files(paths)
    if not targets and not options.quiet:
        click.echo("warning: no Python files found under the given paths", err=True)
    with Progress(sys.stderr, quiet=options.quiet) as progress:
        return run(targets, progress)


def _outcome_of_stdin(options: _Options, configurations: Configurations) -> Outcome:
    from torchlint.discovery import Discovery
    from torchlint.runner import lint_source, outcome_of
    from torchlint.source import SourceFile

    name = options.stdin_filename or STDIN
    settings = Discovery(configurations, options.exclude).settings_of(Path(name))
    data = sys.stdin.buffer.read()
    if settings is None:
        return outcome_of([], 0)
    linted = lint_source(SourceFile(name, data), settings.selection(Path(name)))
    return outcome_of([linted] if linted.findings else [], 1)


def _exit_code(outcome: Outcome, exit_zero: bool) -> int:
    from torchlint.registry import INTERNAL_ERROR as CRASH

    if any(finding.name == CRASH.name for finding in outcome.findings):
        return INTERNAL_ERROR
    return FINDINGS if outcome.findings and not exit_zero else CLEAN


def _write(text: str, file: Path | None, colour: bool) -> None:
    if file is None:
        click.echo(text, nl=False, color=colour)
        return
    try:
        file.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror}") from None


def _is_coloured(when: str) -> bool:
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _errors_of_the_user() -> Iterator[None]:
    """What the user can set right becomes a message and exit code 2."""
    from torchlint.config import ConfigError
    from torchlint.registry import RegistryError, UnknownRule

    try:
        yield
    except (ConfigError, RegistryError, UnknownRule, FileNotFoundError) as error:
        raise click.UsageError(str(error)) from None


@cli.command(context_settings=_HELP)
@click.argument("rules", nargs=-1, metavar="[RULE]...")
@click.option("--all", "everything", is_flag=True, help="Explain every rule.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@_color_option
def explain(rules: tuple[str, ...], everything: bool, markdown: bool, color: str) -> None:
    """What a rule finds, why it is bad, and what to do about it.

    RULE is a name, code, code prefix or category; without one, all rules are listed.
    """
    from torchlint import docs, registry
    from torchlint.colours import painter

    colour = _is_coloured(color)
    paint = painter(colour)
    with _errors_of_the_user():
        metas = [meta for rule in rules for meta in registry.find(rule)] if rules else list(registry.metas())
    if not rules and not everything and not markdown:
        text = docs.listing(metas, paint)
    else:
        pages = [docs.markdown(meta) if markdown else docs.terminal(meta, paint) for meta in _unique(metas)]
        text = "\n".join(pages)
    _write(text, None, colour)


def _unique(metas: list[Meta]) -> list[Meta]:
    return list(dict.fromkeys(metas))


def main() -> NoReturn:
    """The entry point: never a traceback for what a user, a signal or a closed pipe did."""
    try:
        code = cli.main(prog_name="torchlint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        click.echo("torchlint: interrupted", err=True)
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FINDINGS
    sys.exit(code)
