"""`torchlint help`: the help of torchlint, or of one of its commands."""

from __future__ import annotations

from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from torchlint.cli.options import HELP
from torchlint.suggest import hint


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = _commands(ctx.find_root())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(context_settings=HELP, short_help="Show help for a command.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_complete)
@click.pass_context
def help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show help for a command, like `torchlint COMMAND --help`. Without a command, show help for torchlint."""
    shown = ctx.find_root()
    for word in words:
        commands = _commands(shown)
        if word not in commands:
            raise click.UsageError(f"`{shown.command_path}` has no command `{word}`{hint(word, commands)}")
        shown = click.Context(commands[word], parent=shown, info_name=word, **commands[word].context_settings)
    click.echo(shown.get_help())


def _commands(ctx: click.Context) -> Mapping[str, click.Command]:
    return ctx.command.commands if isinstance(ctx.command, click.Group) else {}
