"""`torchlint rules`: what there is to be found, for people and for programs."""

from __future__ import annotations

from typing import Any

import click

from torchlint.cli.completing import complete_rules
from torchlint.cli.errors import errors_of_the_user
from torchlint.cli.options import HELP, color_option, is_coloured, write
from torchlint.finding import Meta


@click.command(context_settings=HELP)
@click.argument("rules", nargs=-1, metavar="[RULE]...", shell_complete=complete_rules)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="table: a line for each rule; json: all that is known of it, options with their defaults included.",
)
@color_option
def rules(rules: tuple[str, ...], output_format: str, color: str) -> None:
    """List rules, those of plugins included: by name, code, code prefix or category, or all.

    \b
    The columns are code, name, category, whether it is on, and what it finds:
      on        by default
      off       unless it is selected
      preview   on with --preview, or when it is selected by its name or code

    `torchlint explain RULE` says the rest; `torchlint --show-settings` which rules your configuration selects.
    """
    from torchlint.colours import painter
    from torchlint.engine import documentation, registry

    with errors_of_the_user():
        metas = [meta for rule in rules for meta in registry.find(rule)] if rules else list(registry.metas())
        metas = list(dict.fromkeys(metas))
    colour = is_coloured(color)
    text = documentation.listing(metas, painter(colour)) if output_format == "table" else _json(metas)
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
