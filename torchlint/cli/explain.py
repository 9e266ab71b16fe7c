"""`torchlint explain`: the documentation of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from torchlint.cli.completing import complete_rules
from torchlint.cli.errors import errors_of_the_user
from torchlint.cli.options import HELP, color_option, is_coloured, write

if TYPE_CHECKING:
    from torchlint.finding import Meta


@click.command(context_settings=HELP, short_help="Explain a rule and its fix.")
@click.argument("rules", nargs=-1, metavar="[RULE]...", shell_complete=complete_rules)
@click.option("--all", "everything", is_flag=True, help="Explain every rule.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@color_option
def explain(rules: tuple[str, ...], everything: bool, markdown: bool, color: str) -> None:
    """Explain a rule: what it finds, why that is bad, and how to fix it.

    RULE is a name, code, code prefix, or category. Without one, the command lists all rules.
    """
    from torchlint.colours import painter
    from torchlint.engine import documentation, registry
    from torchlint.wrapping import terminal_width

    colour = is_coloured(color)
    paint = painter(colour)
    with errors_of_the_user():
        metas = [meta for rule in rules for meta in registry.find(rule)] if rules else list(registry.metas())
    if not rules and not everything and not markdown:
        text = documentation.listing(metas, paint, terminal_width())
    else:
        width = terminal_width()
        pages = [
            documentation.markdown(meta) if markdown else documentation.terminal(meta, paint, width)
            for meta in _unique(metas)
        ]
        text = "\n".join(pages)
    write(text, None, colour)


def _unique(metas: list[Meta]) -> list[Meta]:
    return list(dict.fromkeys(metas))
