"""Shared by the commands: options, colours and output."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from torchlint.cli.errors import Unwritten, UserError
from torchlint.outputs.escaping import printable

_SERVICES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of services that store the output as a log and execute commands in it."""

RULES = "RULES"
"""The placeholder for names of rules in the help."""

Command = TypeVar("Command", bound=Callable[..., Any])

HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class PathType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since Click 8.4
    """A path. An empty one, such as an unset shell variable, is refused."""

    name = "path"

    def __init__(self, **demands: bool) -> None:
        """Accept the arguments of `click.Path`."""
        self._type = click.Path(path_type=Path, **demands)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not value:
            self.fail("the path is empty", param, ctx)
        return Path(self._type.convert(value, param, ctx))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._type.shell_complete(ctx, param, incomplete)


def check_folder_of(file: Path | None) -> None:
    """Refuse a file whose folder does not exist, before any work."""
    if file is not None and not os.path.isdir(file.parent):
        raise UserError(f"cannot write {file}: there is no folder {file.parent}")


def _comma_list(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    items = tuple(item.strip() for value in values for item in value.split(","))
    if not all(items):
        raise click.BadParameter("the list has an empty item")
    return items


def all_of(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """One decorator for several options, which `--help` lists in their order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def variable(name: str) -> dict[str, Any]:
    """The environment variable of an option, such as TORCHLINT_OUTPUT_FORMAT."""
    return {"envvar": f"TORCHLINT_{name.upper().replace('-', '_')}"}


class _ListType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since Click 8.4
    """Names separated by commas, also in a variable."""

    name = "list"

    def split_envvar_value(self, rv: str) -> list[str]:
        return [rv]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from torchlint.cli.completing import complete_rules

        return complete_rules(ctx, param, incomplete) if param.metavar == RULES else []


def list_option(name: str, help: str, metavar: str = RULES, *, also: str = "") -> Callable[[Command], Command]:
    """An option that may be given several times, with several names each; `also` is a second name for it."""
    return click.option(
        name,
        *filter(None, [also]),
        name.removeprefix("--").replace("-", "_"),
        type=_ListType(),
        multiple=True,
        callback=_comma_list,
        metavar=metavar,
        help=help,
        **variable(name.removeprefix("--")),
    )


color_option = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Color the output. auto: color on a terminal unless NO_COLOR is set, and everywhere if FORCE_COLOR is set.",
    **variable("color"),
)


def write(output: str | bytes, file: Path | None, colour: bool, *, err: bool = False) -> None:
    """Write to a file, or else to standard output; raises `Unwritten`.

    Without `colour` the text keeps no escape sequence. If a write fails, the text goes to the next stream that works.
    """
    if file is not None:
        _write_file(output, file)
        return

    try:
        click.echo(output, nl=False, color=colour, err=err)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader has gone, as `head` does, and need not be told
            raise
        if isinstance(output, str):
            click.echo(output, nl=False, err=True)
        raise Unwritten(f"cannot write to standard output: {error.strerror}") from None


def _write_file(output: str | bytes, file: Path) -> None:
    from torchlint.files.atomic_write import WriteError, overwrite

    data = output.encode("utf-8", "backslashreplace") if isinstance(output, str) else output
    try:
        overwrite(file, data)
    except WriteError as error:
        write(output, None, colour=False)
        raise Unwritten(str(error)) from None


def say(text: str) -> None:
    """Print a line for the user on standard error."""
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
