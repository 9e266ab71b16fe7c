"""`torchlint cache`: what earlier runs have found."""

from __future__ import annotations

import click

from torchlint.cli.options import HELP, errors_of_the_user


@click.group(context_settings=HELP)
def cache() -> None:
    """What earlier runs have found, in the folder .torchlint_cache."""


@cache.command(context_settings=HELP)
def clear() -> None:
    """Delete the cache of this folder's project."""
    from torchlint.cache import Cache
    from torchlint.cli.speed import cache_root
    from torchlint.config import Configurations

    with errors_of_the_user():
        found = Cache(cache_root(Configurations()))
        deleted = found.clear()
    click.echo(f"Deleted {found.folder}." if deleted else f"There is no {found.folder}.", err=True)
