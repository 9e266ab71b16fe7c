"""What the commands share: options, colours, where output goes, and errors that are the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from torchlint.outputs.escaping import printable

_SERVICES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables that are set where a service keeps the output as a log, in which it looks for commands."""

Command = TypeVar("Command", bound=Callable[..., Any])

HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _comma_list(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.strip() for value in values for item in value.split(",") if item.strip())


def all_of(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """One decorator for several options, which `--help` lists in their order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def list_option(name: str, help: str, metavar: str = "RULES") -> Callable[[Command], Command]:
    return click.option(name, multiple=True, callback=_comma_list, metavar=metavar, help=help)


color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set, or if FORCE_COLOR is.",
)


def write(text: str, file: Path | None, colour: bool, *, err: bool = False) -> None:
    """Write the output; without `colour` no escape sequence of the text is left in it."""
    if file is None:
        click.echo(text, nl=False, color=colour, err=err)
        return
    from torchlint.writing import WriteError, overwrite

    try:
        overwrite(file, text.encode("utf-8", "backslashreplace"))
    except WriteError as error:
        raise click.UsageError(str(error)) from None


def say(text: str) -> None:
    """A line for the user, beside the output."""
    click.echo(printable(text), err=True)


def is_read_by_people(file: Path | None) -> bool:
    """Whether the output goes to a terminal or into a log, not to a file or another program."""
    return file is None and (sys.stdout.isatty() or any(map(os.environ.get, _SERVICES)))


def is_coloured(when: str) -> bool:
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def errors_of_the_user() -> Iterator[None]:
    """What the user can set right becomes a message and exit code 2."""
    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        if _is_of_the_user(error):
            raise click.UsageError(str(error)) from None
        raise


def _is_of_the_user(error: Exception) -> bool:
    """Asked only when something went wrong, since the linter may not have been imported."""
    from torchlint.baseline import BaselineError
    from torchlint.cache import CacheError
    from torchlint.config import ConfigError
    from torchlint.dispatch import Refused
    from torchlint.git import GitError
    from torchlint.registry import RegistryError, UnknownRule
    from torchlint.writing import WriteError

    own = (ConfigError, RegistryError, UnknownRule, BaselineError, GitError, WriteError, CacheError, Refused)
    return isinstance(error, (*own, FileNotFoundError))
