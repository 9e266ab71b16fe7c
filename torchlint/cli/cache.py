"""`torchlint cache`: clear the results of earlier runs."""

from __future__ import annotations

from pathlib import Path

import click

from torchlint.cli.errors import USAGE_ERROR, errors_of_the_user
from torchlint.cli.options import HELP, say
from torchlint.cli.speed import cache_dir_option


@click.group(
    context_settings=HELP,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    short_help="Clear the cache.",
)
@click.pass_context
def cache(ctx: click.Context) -> None:
    """Clear the cache. It stores results, so that torchlint lints only files that changed.

    The cache is in your own cache folder, unless --cache-dir, the variable TORCHLINT_CACHE_DIR or `cache-dir` in the
    configuration names another one.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(USAGE_ERROR)


@cache.command(context_settings=HELP)
@cache_dir_option
def clear(cache_dir: Path | None) -> None:
    """Delete the results of earlier runs.

    By default, delete the results of all projects. If this project sets `cache-dir`, delete only the results in that
    folder.
    """
    from torchlint.outputs import counted
    from torchlint.project.config import Configurations
    from torchlint.run.cache import folder

    with errors_of_the_user():
        place = folder.find(cache_dir, Configurations().of_folder(Path.cwd()).cache_dir)
        deleted = folder.clear(place.folder) if place is not None else 0
    what = counted(deleted, "file") if deleted else "nothing"
    say(f"Deleted {what} in {place.folder}." if place is not None else "There is no cache.")
