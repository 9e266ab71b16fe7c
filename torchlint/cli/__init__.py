"""The command line: parse, call, print, exit code. Imports what it needs when it needs it."""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn

import click

from torchlint.cli.cache import cache
from torchlint.cli.check import EXIT_CODES, FINDINGS, check
from torchlint.cli.explain import explain
from torchlint.cli.options import HELP
from torchlint.cli.server import server
from torchlint.cli.trace import trace
from torchlint.cli.verify import verify

INTERRUPTED = 130


class _CheckByDefault(click.Group):
    """A group in which `torchlint src/` means `torchlint check src/`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, "--version", *HELP["help_option_names"]}
        if not args or args[0] not in own:
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_CheckByDefault, context_settings=HELP, epilog=EXIT_CODES)
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
      torchlint trace train.py              what torchlint sees in a file, when it is silent

    \b
    To excuse a line:   loss.backward()  # torchlint: ignore[missing-zero-grad]
    To configure:       [tool.torchlint] in pyproject.toml, or torchlint.toml
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


for command in (cache, check, explain, server, trace, verify):
    cli.add_command(command)


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
