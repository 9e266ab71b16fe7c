"""The command line: parse, call, print, exit code. Imports happen where they are needed."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

import click

from torchlint.cli import streams
from torchlint.cli.cache import cache
from torchlint.cli.check import EXIT_CODES, check
from torchlint.cli.completing import VARIABLE, completion
from torchlint.cli.errors import CLEAN, FAILURE, INTERRUPTED, complain, show
from torchlint.cli.explain import explain
from torchlint.cli.help import help
from torchlint.cli.options import HELP
from torchlint.cli.rules import rules
from torchlint.cli.server import server
from torchlint.cli.trace import trace
from torchlint.cli.verify import verify
from torchlint.cli.watch import watch
from torchlint.suggest import hint

_VERSION_OPTIONS = ("-V", "--version")


class _CheckByDefault(click.Group):
    """A group in which `torchlint src/` means `torchlint check src/`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, *_VERSION_OPTIONS, *HELP["help_option_names"]}
        if not args or args[0] not in own:
            self._check_path(*args[:1])
            args = ["check", *args]
        if args[0] == "check":
            _refuse_names_of_files(args)
        return super().parse_args(ctx, args)

    def _check_path(self, word: str = "") -> None:
        """Refuse a word that is no path but resembles a command."""
        is_word = word[:1].isalpha() and word.replace("-", "").isalpha()
        if word == "fix" and not os.path.lexists(word):
            raise click.UsageError("there is neither a command nor a path `fix`; did you mean `torchlint --fix`?")
        if is_word and not os.path.lexists(word) and (meant := hint(word, self.commands, 0.7)):
            raise click.UsageError(f"there is neither a command nor a path `{word}`{meant}")

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]  # as ours is called
        """Run the command; with `standalone_mode` the process ends, as Click's test runner expects."""
        if not extra.pop("standalone_mode", True):
            return super().main(args, standalone_mode=False, **extra)
        try:
            code: int | None = super().main(args, standalone_mode=False, **extra)
        except click.ClickException as error:
            show(error)
            code = error.exit_code
        sys.exit(code or CLEAN)


def _refuse_names_of_files(args: list[str]) -> None:
    """Refuse a file whose name is an option: the shell expands `torchlint *` to names of files."""
    for arg in takewhile(lambda arg: arg != "--", args):
        if arg.startswith("-") and arg != "-" and os.path.lexists(arg):
            raise click.UsageError(f"`{arg}` is both an option and a file: write `./{arg}` or `--`")


@click.group(cls=_CheckByDefault, context_settings=HELP, epilog=EXIT_CODES)
@click.version_option(None, *_VERSION_OPTIONS, package_name="torchlint", message="torchlint %(version)s")
def cli() -> None:
    """Find bugs in PyTorch training code: wrong gradients, memory leaks, wasted time.

    `torchlint PATH` is short for `torchlint check PATH`. `torchlint check --help` lists all options.
    Linting never imports or runs your code. Only `verify` and `watch` run your program.

    \b
    Examples:
      torchlint                             all files below this folder
      torchlint src/ train.py               some folders and files
      torchlint --select TL2,correctness .  rules by name, code or category
      torchlint --output-format github .    annotations for a GitHub workflow
      torchlint rules                       list all rules
      torchlint explain missing-zero-grad   explain a rule
      torchlint trace train.py              show why torchlint reports nothing

    \b
    To ignore a line:   loss.backward()  # torchlint: ignore[missing-zero-grad]
    To configure:       [tool.torchlint] in pyproject.toml, or torchlint.toml
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


for command in (cache, check, completion, explain, help, rules, server, trace, verify, watch):
    cli.add_command(command)


def start() -> NoReturn:
    """Run the command line and end the process at once: freeing its memory takes longer than linting a small file."""
    try:
        main()
    except SystemExit as end:
        streams.leave(end.code)


def main() -> NoReturn:
    """The entry point: no traceback, and exit code 1 only for findings."""
    streams.prepare()
    code = _exit_code()
    streams.abandon_output()
    sys.exit(code)


def _exit_code() -> int:
    """Run the command line; print any error and return the exit code."""
    try:
        code: int | None = cli.main(
            prog_name="torchlint", complete_var=VARIABLE, standalone_mode=False, windows_expand_args=False
        )
        sys.stdout.flush()
        return code or CLEAN
    except click.ClickException as error:
        show(error)
        return error.exit_code
    except click.Abort:
        complain("interrupted")
        return INTERRUPTED
    except SystemExit as end:  # Click's answer to a shell that completes words, or to a pipe whose reader has gone
        return FAILURE if end.code else CLEAN
    except Exception as error:
        complain(_described(error))
        return FAILURE


def _described(error: Exception) -> str:
    """The message for an unexpected error: the system's text, or the place of a crash of torchlint."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.name}, {place.filename}:{place.lineno}"
    return f"torchlint crashed, please report it: {type(error).__name__}: {error} ({where})"
