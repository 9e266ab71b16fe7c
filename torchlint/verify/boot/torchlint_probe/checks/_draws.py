"""The states of random generators in the workers of loaders: the part of `workers-alike` that runs in workers."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import get_worker_info

from torchlint_probe.contained import contained
from torchlint_probe.hooks import Hook

_COUNT = "torchlint-fetches"
_FETCHES = 3
"""The number of batches of a worker that are examined."""
_ENOUGH = 2
_BYTES = 1_000_000
_DEPTH = 4
_PARTS = 200
_PLAIN = (int, float, str, bytes, type(None), torch.Tensor, torch.nn.Module, type)

State = dict[str, int]
"""Checksums of the states of generators, by the way to name them."""


def _path(folder: str, pid: int) -> str:
    return os.path.join(folder, f"draws-{pid}")


class Fetched(Hook):
    """Wraps the method with which a worker gets the samples of a batch."""

    def __call__(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        worker = get_worker_info()
        fetches = 0 if worker is None else fetcher.__dict__.get(_COUNT, 0)
        if worker is None or fetches >= _FETCHES or getattr(worker, "worker_method", "") == "thread":
            return original(fetcher, index)
        before = _states(fetcher.dataset)
        data = original(fetcher, index)
        fetcher.__dict__[_COUNT] = fetches + 1
        self._write(worker, before, _states(fetcher.dataset))
        return data

    @contained
    def _write(self, worker: Any, before: State, after: State) -> None:
        """Append the generators that were drawn from to a file, which the training process reads."""
        drawn = {name: state for name, state in before.items() if after.get(name, state) != state}
        row = {"seed": worker.seed - worker.id, "worker": worker.id, "workers": worker.num_workers, "drawn": drawn}
        with contextlib.suppress(OSError), open(_path(self._probe.plan.folder, os.getppid()), "a") as file:
            file.write(json.dumps(row) + "\n")


class Draws:
    """The training process reads what its workers have written."""

    def __init__(self, folder: str) -> None:
        self._path = _path(folder, os.getpid())

    def alike(self) -> dict[int, tuple[str, int]]:
        """By the seed of a loop, a generator from which all of its workers draw the same numbers, and their number."""
        loops: dict[int, dict[int, list[State]]] = {}
        workers: dict[int, int] = {}
        for row in self._rows():
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                loops.setdefault(row["seed"], {}).setdefault(row["worker"], []).append(dict(row["drawn"]))
                workers[row["seed"]] = int(row["workers"])
        found = {}
        for seed, drawn in loops.items():
            names = [name for name in drawn[next(iter(drawn))][0] if _is_alike([*drawn.values()], name)]
            if names and len(drawn) == workers[seed] > 1:
                found[seed] = min(names, key=len), workers[seed]
        return found

    def _rows(self) -> Iterator[dict[str, Any]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                lines = file.read(_BYTES).splitlines()
        except (OSError, UnicodeError):
            return
        for line in lines:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def _is_alike(workers: list[list[State]], name: str) -> bool:
    """Whether all workers drew from a generator in the same states, which differ from batch to batch."""
    fetches = min(map(len, workers))
    states = [[batches[number].get(name) for batches in workers] for number in range(fetches)]
    same = [one[0] for one in states if one[0] is not None and len(set(one)) == 1]
    return len(same) == fetches >= _ENOUGH and len(set(same)) == fetches


def _states(dataset: Any) -> State:
    try:
        return dict(_generators(dataset))
    except Exception:  # an attribute of the program may raise whatever it likes
        return {}


def _generators(dataset: Any) -> Iterator[tuple[str, int]]:
    """The global generators, and those that the dataset or its transforms store."""
    yield "`random`", zlib.crc32(repr(random.getstate()).encode())
    yield "`torch`", _checksum(torch.get_rng_state().numpy())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield "`numpy.random`", _of_numpy(numpy.random.get_state())
    waiting, seen = [("", dataset, 0)], 0
    while waiting and seen < _PARTS:
        name, part, depth = waiting.pop()
        seen += 1
        if isinstance(part, random.Random):
            yield f"`{name}` of the dataset", zlib.crc32(repr(part.getstate()).encode())
        elif isinstance(part, torch.Generator):
            yield f"`{name}` of the dataset", _checksum(part.get_state().numpy())
        elif numpy is not None and isinstance(part, numpy.random.RandomState):
            yield f"`{name}` of the dataset", _of_numpy(part.get_state())
        elif numpy is not None and isinstance(part, numpy.random.Generator):
            yield f"`{name}` of the dataset", zlib.crc32(repr(part.bit_generator.state).encode())
        elif depth < _DEPTH:
            waiting += [(key, inner, depth + 1) for key, inner in _parts(name, part) if not isinstance(inner, _PLAIN)]


def _parts(name: str, part: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object that may store generators, and the elements of a short list."""
    if isinstance(part, (list, tuple)):
        yield from ((name, inner) for inner in part[:10])
    else:
        yield from (getattr(part, "__dict__", None) or {}).items()


def _of_numpy(state: Any) -> int:
    return zlib.crc32(str(state[2]).encode(), _checksum(state[1]))


def _checksum(values: Any) -> int:
    return zlib.crc32(values.tobytes())
