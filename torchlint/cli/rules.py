"""`torchlint rules`: list all rules, for people and for programs."""

from __future__ import annotations

from typing import Any

import click

from torchlint.cli.completing import complete_rules
from torchlint.cli.errors import errors_of_the_user
from torchlint.cli.options import HELP, color_option, is_coloured, write
from torchlint.finding import Meta


@click.command(context_settings=HELP, short_help="List rules, including those of plugins.")
@click.argument("rules", nargs=-1, metavar="[RULE]...", shell_complete=complete_rules)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: one line per rule. json: all details, including options and their defaults.",
)
@color_option
def rules(rules: tuple[str, ...], output_format: str, color: str) -> None:
    """List all rules, or those that you select by name, code, code prefix, or category.
    The list includes the rules of plugins.

    The columns are code, name, category, default, and the bug that the rule finds. The default is one of:

    \b
      on        on by default
      off       off unless selected
      preview   off unless selected by name or code, or with --preview

    `torchlint explain RULE` describes a rule. `torchlint --show-settings` lists the rules that you have selected.
    """
    from torchlint.colours import painter
    from torchlint.engine import documentation, registry
    from torchlint.wrapping import terminal_width

    with errors_of_the_user():
        metas = [meta for rule in rules for meta in registry.find(rule)] if rules else list(registry.metas())
        metas = list(dict.fromkeys(metas))
    colour = is_coloured(color)
    is_table = output_format == "table"
    text = documentation.listing(metas, painter(colour), terminal_width()) if is_table else _json(metas)
    write(text, None, colour)


def _json(metas: list[Meta]) -> str:
    from torchlint.engine import registry
    from torchlint.outputs.escaping import json_text

    options = {rule.rule_name(): dict(rule.options) for rule in registry.rules()}
    return json_text([_described(meta, options.get(meta.name, {})) for meta in metas])


def _described(meta: Meta, options: dict[str, Any]) -> dict[str, Any]:
    from torchlint.engine import registry

    return {
        "code": meta.code,
        "name": meta.name,
        "category": meta.category.value,
        "severity": meta.category.severity.value,
        "preview": meta.preview,
        "default": meta.category.on_by_default and not meta.preview,
        "summary": meta.summary,
        "aliases": list(meta.aliases),
        "options": options,
        "url": registry.address(meta.name),
        "documentation": meta.documentation.strip(),
    }
