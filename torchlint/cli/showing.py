"""What `check` shows instead of findings: the files that it would lint (--show-files), and the settings of one."""

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
    click.option("--show-files", is_flag=True, help="List the files that would be linted, and lint none."),
    click.option(
        "--show-settings",
        is_flag=True,
        help="Show the settings of PATH, where each comes from, and which rules that makes; lint nothing.",
    ),
    click.option(
        "-w",
        "--watch",
        is_flag=True,
        help="Lint again whenever a file or a configuration changes, until Ctrl-C; the exit code is that of the last "
        "run.",
    ),
    click.option(
        "-v", "--verbose", is_flag=True, help="Say which configuration is used, and why files and folders are skipped."
    ),
)

showing_options = all_of(_OPTIONS)


def files(targets: Iterable[Target]) -> str:
    """One path a line; what cannot be linted is not among them."""
    return "".join(f"{printable(str(target.path))}\n" for target in targets if not target.problem)


def settings(path: Path, discovery: Discovery) -> str:
    """The settings of a path as TOML, with comments that say where each was set."""
    found = discovery.configuration_of(path)
    lines = [f"# Settings of {path}", *_sources(path, found), ""]
    lines += [f"{line:<40}  # {origin}" for line, origin in _values(found)]
    return "".join(f"{printable(line)}\n" for line in [*lines, "", *_rules(path, found)])


def _sources(path: Path, found: Settings) -> Iterator[str]:
    """The files that the settings come from, and the next one that would apply without them."""
    from torchlint.project.config import next_above, shown_path

    if not found.files:
        yield "# by no configuration file"
        return
    first, *extended = map(shown_path, found.files)
    yield f"# by {first}" + "".join(f", which extends {name}" for name in extended)
    above = next_above(found.files[0])
    if above is not None and above not in found.files:
        yield f"# Nothing is inherited from {shown_path(above)}: `extend` would do that"


def _values(found: Settings) -> Iterator[tuple[str, str]]:
    from torchlint.project.keys import KEYS

    for name, key in KEYS.items():
        field = name.replace("-", "_")
        if not key.of_this_file:
            value = getattr(found, field)
            origin = found.origins.get(field, "default")
            yield (f"{name} = {_toml(value, field)}" if value is not None else f"# {name} is not set"), origin


def _toml(value: Any, field: str = "") -> str:
    """A value as one writes it."""
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
        yield f"# PyTorch {' to '.join(dict.fromkeys(releases))}, by the requirements of the project"
