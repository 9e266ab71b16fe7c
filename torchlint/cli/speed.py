"""The options that change the speed but not the findings: --jobs, --no-cache and --executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.options import PathType, all_of, say, variable

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from torchlint.project.config import Configurations
    from torchlint.run.cache import Cache
    from torchlint.run.runner import Means

cache_dir_option = click.option(
    "--cache-dir",
    type=PathType(file_okay=False),
    metavar="FOLDER",
    help="Use this folder for the cache. The variable TORCHLINT_CACHE_DIR does the same; it needs a full path.",
)

_OPTIONS = (
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="The number of processes. By default, all processors, or fewer if there are few files.",
        **variable("jobs"),
    ),
    click.option(
        "-n",
        "--no-cache",
        is_flag=True,
        help="Do not use the cache.",
        **variable("no-cache"),
    ),
    cache_dir_option,
    click.option(
        "--executor",
        metavar="dask://HOST:PORT",
        help="Lint on the workers of this Dask scheduler. torchlint sends the files to the workers.",
        **variable("executor"),
    ),
)


speed_options = all_of(_OPTIONS)


@dataclass(frozen=True)
class Speed:
    """Processes, cache and executor of a run."""

    jobs: int | None
    no_cache: bool
    cache_dir: Path | None
    executor: str | None
    quiet: bool

    def check(self) -> None:
        """Refuse contradictory options."""
        if self.jobs is not None and self.executor is not None:
            raise click.UsageError("--jobs is for this machine, and --executor for others: leave one out")
        if self.no_cache and self.cache_dir is not None:
            raise click.UsageError("--no-cache uses no cache, but --cache-dir names one: leave one out")

    @contextmanager
    def means(self, configurations: Configurations) -> Iterator[Means]:
        """The means of a run; the cache is saved even after an interrupt. Raises `remote.Unreachable`."""
        from torchlint.run.runner import Means

        with self._connection() as executor, self._cache(configurations) as cache:
            yield Means(self.jobs, executor, cache)

    def _connection(self) -> AbstractContextManager[Executor | None]:
        if not self.executor:
            return nullcontext()
        from torchlint.run.dask import connected

        return connected(self.executor)

    @contextmanager
    def _cache(self, configurations: Configurations) -> Iterator[Cache | None]:
        """The cache, saved at the end; None with a warning if the folder cannot be used."""
        if self.no_cache:
            yield None
            return
        from torchlint.run.cache import Cache, CacheError, folder

        cache = None
        try:
            settings = configurations.of_folder(Path.cwd())
            if (place := folder.find(self.cache_dir, settings.cache_dir)) is not None:
                cache = Cache(place, settings.root)
        except CacheError as error:
            self._warn(error)
        try:
            yield cache
        finally:
            try:
                if cache is not None:
                    cache.save()
            except CacheError as error:
                self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self.quiet:
            say(f"warning: {error}")
