"""`torchlint cache`: what earlier runs have found."""

from __future__ import annotations

import click

from torchlint.cli.errors import errors_of_the_user
from torchlint.cli.options import HELP, say


@click.group(context_settings=HELP)
def cache() -> None:
    """What earlier runs have found, in the user's folder for caches, or in $TORCHLINT_CACHE_DIR."""


@cache.command(context_settings=HELP)
def clear() -> None:
    """Delete what earlier runs have found, in all projects."""
    from torchlint.outputs import counted
    from torchlint.run.cache import folder

    with errors_of_the_user():
        place = folder.find()
        deleted = folder.clear(place) if place is not None else 0
    what = counted(deleted, "file") if deleted else "nothing"
    say(f"Deleted {what} in {place}." if place is not None else "There is no cache.")
