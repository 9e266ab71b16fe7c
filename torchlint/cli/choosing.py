"""The options that choose rules, files and configuration: --select, --exclude, --config and so on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from torchlint.cli.options import PathType, all_of, list_option, variable

if TYPE_CHECKING:
    from torchlint.project.config import Configurations


class ConfigType(PathType):
    """A configuration file, or `KEY=VALUE`."""

    name = "config"

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        is_setting = isinstance(value, str) and "=" in value and not os.path.lexists(value)
        return value if is_setting else super().convert(value, param, ctx)

    def split_envvar_value(self, rv: str) -> list[str]:
        return [rv]


_OPTIONS = (
    list_option(
        "--select",
        "Use only these rules. RULES are names, codes, code prefixes or categories, separated by commas, or `all`.",
    ),
    list_option("--ignore", "Do not use these rules."),
    list_option("--extend-select", "Use these rules too."),
    list_option("--fixable", "Fix only findings of these rules."),
    list_option("--unfixable", "Do not fix findings of these rules."),
    list_option(
        "--exclude",
        "Also skip files and folders that match these patterns, besides those that the configuration excludes. "
        "Both names mean the same. Write patterns as in .gitignore.",
        "PATTERNS",
        also="--extend-exclude",
    ),
    list_option(
        "--per-file-ignores",
        "Ignore a rule in files that match a pattern. Example: 'tests/*:missing-zero-grad'. This option "
        "replaces the setting in the configuration. Write patterns as in .gitignore.",
        "PATTERN:RULE",
    ),
    click.option(
        "--ignore-noqa",
        is_flag=True,
        help="Also report findings that `# torchlint: ignore` or `# noqa` suppresses.",
    ),
    click.option(
        "--preview",
        is_flag=True,
        help="Turn on preview rules and low-confidence findings.",
        **variable("preview"),
    ),
    click.option("--force-exclude", is_flag=True, help="Skip excluded files even if the command line names them."),
    click.option(
        "--config",
        type=ConfigType(),
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="Use this configuration file for all files, or set one key. Examples: --config preview=true, "
        "--config severity.performance=hint. The key overrides configuration files. Other options "
        "override the key.",
        **variable("config"),
    ),
    click.option("--no-follow", is_flag=True, help="Do not follow imports to other files of the repository."),
    click.option("--isolated", is_flag=True, help="Ignore all configuration files.", **variable("isolated")),
)

choosing_options = all_of(_OPTIONS)


@dataclass(frozen=True)
class Choosing:
    """The selection of rules and files on the command line."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    extend_select: tuple[str, ...]
    fixable: tuple[str, ...]
    unfixable: tuple[str, ...]
    preview: bool
    force_exclude: bool
    no_follow: bool
    config: tuple[Path | str, ...]
    isolated: bool
    per_file_ignores: tuple[str, ...]
    ignore_noqa: bool
    said: Mapping[str, str] = field(default_factory=dict)
    """The option or variable that set each value."""

    def check(self) -> None:
        """Refuse contradictory options."""
        if self.isolated and self._files:
            raise click.UsageError("--isolated uses no configuration file, but --config names one: leave one out")
        if len(self._files) > 1:
            raise click.UsageError("--config names two files: leave one out, or let one extend the other")

    @property
    def _files(self) -> list[Path]:
        return [item for item in self.config if isinstance(item, Path)]

    def configurations(self) -> Configurations:
        """The configuration of each folder; raises `ConfigError`."""
        from torchlint.project.config import Configurations, inline
        from torchlint.project.settings import Overrides

        overrides = Overrides(
            self.select,
            self.ignore,
            self.extend_select,
            self.preview,
            self.force_exclude,
            not self.no_follow,
            self.fixable,
            self.unfixable,
            tuple(inline(item) for item in self.config if isinstance(item, str)),
            self.said,
            _by_pattern(self.per_file_ignores),
            self.ignore_noqa,
        )
        return Configurations(overrides, file=next(iter(self._files), None), isolated=self.isolated)


def _by_pattern(pairs: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The rules that `PATTERN:RULE` ignores for each pattern; raises `BadParameter`."""
    ignored: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        pattern, _, rule = pair.rpartition(":")
        if not pattern.strip() or not rule.strip():
            raise click.BadParameter(
                f"`{pair}` is no PATTERN:RULE, as in `tests/*:missing-zero-grad`", param_hint="--per-file-ignores"
            )
        ignored[pattern.strip()] = (*ignored.get(pattern.strip(), ()), rule.strip())
    return tuple(ignored.items())


def origins(ctx: click.Context) -> dict[str, str]:
    """The origin of each value that is not the default: `--select`, or `TORCHLINT_SELECT`."""
    found = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is ParameterSource.COMMANDLINE:
            found[param.name or ""] = max(param.opts, key=len)
        elif source is ParameterSource.ENVIRONMENT:
            found[param.name or ""] = str(param.envvar)
    return {"follow" if name == "no_follow" else name: origin for name, origin in found.items()}
