"""Workers on other machines, by the address of who gives them work."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torchlint.run.cache.environment import difference, environment
from torchlint.run.scheduler import Refused

if TYPE_CHECKING:
    from distributed import Client

_SCHEME = "dask://"
_PATIENCE = 5
"""Seconds in which a scheduler, and each of its workers, must have answered."""


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """An executor for `dask://HOST:PORT`; raises `Refused` if no scheduler or worker can lint."""
    if not address.startswith(_SCHEME):
        raise Refused(f"unknown executor `{address}`: it has the form {_SCHEME}HOST:PORT")
    with _client(address) as client:
        _check_workers(client, address)
        with client.get_executor(pure=False) as executor:
            yield executor


def _client(address: str) -> Client:
    try:
        import distributed
    except ImportError as error:
        raise Refused(f"--executor {address} needs Dask: pip install 'torchlint[dask]' ({error})") from None
    _silence()
    try:
        return distributed.Client(f"tcp://{address.removeprefix(_SCHEME)}", timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Refused(f"no Dask scheduler answers at {address}: {error}") from None


def _silence() -> None:
    """Whatever Dask logs is for those who run it; what matters here comes as an error."""
    import logging

    for name in ("distributed", "distributed.client"):  # the second has a level of its own
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _check_workers(client: Client, address: str) -> None:
    answers: dict[str, Any] = client.run(environment, on_error="return")
    if not answers:
        raise Refused(f"the Dask scheduler at {address} has no workers")
    for worker, answer in answers.items():
        if isinstance(answer, Exception):
            raise Refused(f"the worker {worker} cannot lint: {type(answer).__name__}: {answer}")
        if differs := difference(environment(), answer):
            raise Refused(f"the worker {worker} has another torchlint: {differs}")
