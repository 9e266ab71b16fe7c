"""Shell completion: names of rules, commands, and `torchlint completion`, which prints the script."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from torchlint.cli.options import HELP, write

_SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TORCHLINT_COMPLETE"
"""The variable through which a shell requests completions."""


def complete_rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names and codes of rules, categories and `all`, for the last part of a list with commas."""
    from torchlint.engine import registry
    from torchlint.finding import Category

    before, comma, word = incomplete.rpartition(",")
    words = [(meta.name, meta.summary) for meta in registry.metas()]
    words += [(meta.code, meta.name) for meta in registry.metas()]
    words += [(category.value, "all rules of this category") for category in Category] + [("all", "all rules")]
    begin = word.lower()
    return [
        CompletionItem(f"{before}{comma}{name}", help=help) for name, help in words if name.lower().startswith(begin)
    ]


def complete_paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and folders; for the first word after `torchlint` also the commands."""
    found = [CompletionItem(incomplete, type="file")]
    group = ctx.parent
    if group is None or not isinstance(group.command, click.Group) or ctx.params.get("paths"):
        return found
    names = group.command.list_commands(group)
    return found + [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(context_settings=HELP, short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete commands, options and names of rules.

    \b
    Save the script where your shell looks for it:
      bash   torchlint completion bash >
             ~/.local/share/bash-completion/completions/torchlint
      zsh    torchlint completion zsh > ~/.zfunc/_torchlint
             (with `fpath+=~/.zfunc` before `compinit`)
      fish   torchlint completion fish > ~/.config/fish/completions/torchlint.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "Click knows these shells"
    script = found(click.Group(), {}, "torchlint", VARIABLE)
    write(script.source_template % script.source_vars(), None, colour=False)
