"""Errors in one form: `error: ...` on standard error, an exit code, and usage lines for wrong usage only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from torchlint.outputs.escaping import printable

CLEAN, FINDINGS, USAGE_ERROR, FAILURE = range(4)
"""The exit codes."""
INTERRUPTED = 130


class UserError(click.ClickException):
    """An error that the user can repair, apart from wrong usage."""

    exit_code = USAGE_ERROR


class Unwritten(click.ClickException):
    """torchlint could not write an output."""

    exit_code = FAILURE


def show(error: click.ClickException) -> None:
    """Print an error without terminal commands from the names of files and keys in it."""
    complain(_plain(error.format_message()) + _of_variable(error))
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx
        click.echo(f"usage: {' '.join(command.command.get_usage(command).split()[1:])}", err=True)
        click.echo(f"help:  {command.command_path} {command.help_option_names[-1]}", err=True)


def complain(message: str) -> None:
    """Print `error: ...`."""
    click.echo(f"error: {printable(message)}", err=True)


def _of_variable(error: click.ClickException) -> str:
    """The variable that may have set an option to a wrong value."""
    param = error.param if isinstance(error, click.BadParameter) else None
    variable = param.envvar if param is not None else None
    return f" (the variable {variable} is set)" if isinstance(variable, str) and variable in os.environ else ""


def _plain(message: str) -> str:
    """A message of Click in the form of ours: lower case, no full stop."""
    is_sentence = message[:1].isupper() and message[1:2].islower()
    text = message[:1].lower() + message[1:] if is_sentence else message
    return text.removesuffix(".") if is_sentence else text


@contextmanager
def errors_of_the_user() -> Iterator[None]:
    """Turn errors that the user can repair into exit code 2, and failed writes into exit code 3."""
    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        if _is_of_the_user(error):
            raise UserError(_said(error)) from None
        from torchlint.files.atomic_write import WriteError

        if isinstance(error, WriteError):
            raise Unwritten(str(error)) from None
        raise


def _is_of_the_user(error: Exception) -> bool:
    """The error classes of the linter, imported only after an error."""
    from torchlint.adoption.baseline import BaselineError
    from torchlint.adoption.git import GitError
    from torchlint.engine.registry import RegistryError, UnknownRule
    from torchlint.project.config import ConfigError
    from torchlint.run.cache import CacheError
    from torchlint.run.scheduler import Refused

    own = (ConfigError, RegistryError, UnknownRule, BaselineError, GitError, CacheError, Refused)
    return isinstance(error, (*own, FileNotFoundError))


def _said(error: Exception) -> str:
    """The message of an error; for a missing current folder the system's own text is empty."""
    is_of_getcwd = isinstance(error, FileNotFoundError) and error.errno and error.filename is None
    return "the current folder does not exist any more" if is_of_getcwd else str(error)
