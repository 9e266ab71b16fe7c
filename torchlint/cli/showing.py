"""The options that show files and settings instead of findings: --show-files, --show-settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchlint.cli.options import all_of
from torchlint.outputs.escaping import printable

if TYPE_CHECKING:
    from torchlint.project.discovery import Discovery, Target
    from torchlint.project.settings import Settings

_WIDTH = 100
_OPTIONS = (
    click.option("--show-files", is_flag=True, help="List the files to lint, but do not lint them."),
    click.option(
        "--show-settings",
        is_flag=True,
        help="Show the settings of PATH, where each one was set, and the active rules. Lint nothing.",
    ),
    click.option(
        "-w",
        "--watch",
        is_flag=True,
        help="Lint again whenever a file or a configuration changes, until you press Ctrl-C. The exit code is "
        "that of the last run. (The command `torchlint watch` runs a program instead.)",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Show which configuration applies, and why torchlint skips files and folders.",
    ),
)

showing_options = all_of(_OPTIONS)


def files(targets: Iterable[Target]) -> str:
    """The paths of files that can be linted, one per line."""
    return "".join(f"{printable(str(target.path))}\n" for target in targets if not target.problem)


def settings(path: Path, discovery: Discovery) -> str:
    """The settings of a path as TOML, with the origin of each in a comment."""
    found = discovery.configuration_of(path)
    lines = [f"# Settings of {path}", *_sources(path, found), ""]
    lines += [f"{line:<40}  # {origin}" for line, origin in _values(found)]
    return "".join(f"{printable(line)}\n" for line in [*lines, "", *_rules(path, found)])


def _sources(path: Path, found: Settings) -> Iterator[str]:
    """The files with the settings, and the next file that would apply without them."""
    from torchlint.project.config import next_above, shown_path

    if not found.files:
        yield "# from the defaults: no configuration file applies"
        return
    first, *extended = map(shown_path, found.files)
    yield f"# from {first}" + "".join(f", which extends {name}" for name in extended)
    above = next_above(found.files[0])
    if above is not None and above not in found.files:
        yield f"# Inherits nothing from {shown_path(above)}: add `extend` for that"


def _values(found: Settings) -> Iterator[tuple[str, str]]:
    from torchlint.project.keys import KEYS

    for name, key in KEYS.items():
        field = name.replace("-", "_")
        if not key.of_this_file:
            value = getattr(found, field)
            origin = found.origins.get(field, "default")
            yield (f"{name} = {_toml(value, field)}" if value is not None else f"# {name} is not set"), origin


def _toml(value: Any, field: str = "") -> str:
    """A value in TOML."""
    from torchlint.project.config import shown_path

    if isinstance(value, Path):
        return json.dumps(shown_path(value))
    if isinstance(value, dict) or field in ("severity", "per_file_ignores"):
        items = ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in dict(value).items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _rules(path: Path, found: Settings) -> Iterator[str]:
    from textwrap import wrap

    selection = found.selection(path)
    names = [rule.rule_name() for rule in selection.rules]
    listed = f"{len(names)} rule{'s' * (len(names) != 1)}: {', '.join(names)}"
    yield from wrap(listed, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)
    if found.torch is not None:
        releases = [".".join(map(str, release)) for release in (found.torch.lowest, found.torch.highest)]
        yield f"# PyTorch {' to '.join(dict.fromkeys(releases))}, as the project requires"
