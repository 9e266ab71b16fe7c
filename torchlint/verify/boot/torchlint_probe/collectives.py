"""The hooks around calls of `torch.distributed`, which report them to the check of collectives."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from torchlint_probe.contained import contained
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.checks.unmatched_collective import UnmatchedCollective
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "all_gather_object": "all_gather_object",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "barrier": "barrier",
    "broadcast": "broadcast",
    "broadcast_object_list": "broadcast_object_list",
    "gather": "gather",
    "gather_object": "gather_object",
    "monitored_barrier": "monitored_barrier",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "scatter": "scatter",
    "scatter_object_list": "scatter_object_list",
}
"""Functions, each with the collective that it makes."""
_PAIRS = {"send": "dst", "recv": "src"}
"""Functions that wait for one rank, and the parameter that names it."""


SETUP = "setup"
"""The name of the calls that make groups, which are numbered like those of a group."""


@dataclass
class Call:
    """A call that runs, or that raised; `peers` are the ranks of a call between two."""

    group: str
    number: int
    kind: str
    peers: list[int]
    site: int
    start: float
    error: str = ""


def tap(hooks: Hooks, probe: Probe, check: type[UnmatchedCollective]) -> None:
    """Put the hooks in place."""
    if not distributed.is_available():
        return
    functions = import_module("torch.distributed.distributed_c10d")
    for owner in (functions, distributed):
        for name in (*_COLLECTIVES, *_PAIRS, "new_group"):
            if hasattr(owner, name):
                hooks.listen(owner, name, _Function(probe, check, name, getattr(owner, name)))
        hooks.listen(owner, "init_process_group", _Start(probe, check, owner.init_process_group))
        hooks.listen(owner, "destroy_process_group", _End(probe, check))
    hooks.replace(distributed.Work, "wait", _Wait(probe, check))
    wrapper = torch.nn.parallel.DistributedDataParallel
    hooks.replace(wrapper, "__init__", _Wrap(probe, check, "the construction of `DistributedDataParallel`"))
    if hasattr(wrapper, "_sync_buffers"):
        hooks.replace(
            wrapper, "_sync_buffers", _Wrap(probe, check, "the synchronization of buffers in `DistributedDataParallel`")
        )
    hooks.listen(wrapper, "forward", _Forward(probe, check))
    hooks.replace(torch.autograd, "backward", _Backward(probe, check))
    hooks.replace(import_module("torch.distributed.algorithms.join").Join, "__enter__", _Join(probe, check))


class _Listener(Hook):
    """Finds the check, which is another one after a fork."""

    def __init__(self, probe: Probe, kind: type[UnmatchedCollective]) -> None:
        super().__init__(probe)
        self._kind = kind
        self._found: tuple[Any, UnmatchedCollective | None] = None, None

    @property
    def check(self) -> UnmatchedCollective | None:
        """The check; a fork has its own."""
        checks = self._probe.checks
        if self._found[0] is not checks:
            found = (check for check in checks.all if isinstance(check, self._kind))
            self._found = checks, next(found, None)
        return self._found[1]

    def run(self, begin: Callable[[UnmatchedCollective], Call | None], call: Callable[[], Any]) -> Any:
        """Run a call of `torch.distributed`; those inside another one are a part of it."""
        check = self.check
        if check is None:
            return call()
        begun = None if check.depth else self._begin(begin, check)
        check.depth += 1
        try:
            result = call()
        except BaseException as error:
            if begun is not None:
                check.leave(begun, error)
            raise
        finally:
            check.depth -= 1
        if begun is not None:
            check.leave(begun)
            if hasattr(result, "wait"):
                check.works(begun, result)
        return result

    @contained
    def _begin(self, begin: Callable[[UnmatchedCollective], Call | None], check: UnmatchedCollective) -> Call | None:
        return begin(check)


class _Function(_Listener):
    """A function of `torch.distributed` that the ranks of a group call together, or two of them."""

    def __init__(self, probe: Probe, kind: type[UnmatchedCollective], name: str, function: Any) -> None:
        super().__init__(probe, kind)
        self._name = name
        self._signature = inspect.signature(function)

    def __call__(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        return self.run(lambda check: self._enter(check, args, kwargs), lambda: original(*args, **kwargs))

    def _enter(self, check: UnmatchedCollective, args: Any, kwargs: Any) -> Call | None:
        given = self._signature.bind_partial(*args, **kwargs).arguments
        site = self._probe.sites.here()
        if self._name == "new_group":
            if given.get("use_local_synchronization"):
                return None
            return check.enter(f"{check.worlds}:{SETUP}", range(check.world), "new_group", -1, site)
        group = check.group(given.get("group"))
        if group is None:
            return None
        if self._name in _PAIRS:
            peer = given.get(_PAIRS[self._name])
            return None if peer is None else self._pair(check, group[0], int(peer), site)
        root = next((given[name] for name in ("src", "dst") if isinstance(given.get(name), int)), -1)
        return check.enter(*group, _COLLECTIVES[self._name], root, site)

    def _pair(self, check: UnmatchedCollective, group: str, peer: int, site: int) -> Call:
        check.knows(group)
        return check.start(Call(group, 0, self._name, [peer], site, time.monotonic()))


class _Start(_Listener):
    """`init_process_group`."""

    def __init__(self, probe: Probe, kind: type[UnmatchedCollective], function: Any) -> None:
        super().__init__(probe, kind)
        self._signature = inspect.signature(function)

    def __call__(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        result = self.run(lambda check: self._enter(check, args, kwargs), lambda: original(*args, **kwargs))
        check = self.check
        if check is not None:
            check.started()
        return result

    def _enter(self, check: UnmatchedCollective, args: Any, kwargs: Any) -> Call | None:
        given = self._signature.bind_partial(*args, **kwargs).arguments
        rank, world = given.get("rank", -1), given.get("world_size", -1)
        if rank == -1:
            rank, world = os.environ.get("RANK", -1), os.environ.get("WORLD_SIZE", -1)
        return check.starts(int(rank), int(world))


class _End(_Listener):
    """`destroy_process_group`: this rank makes no more calls."""

    def __call__(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        check = self.check
        if check is not None and not args and kwargs.get("group") is None:
            check.has_left = True
        return original(*args, **kwargs)


class _Wait(_Listener):
    """Waiting for an asynchronous call."""

    def __call__(self, original: Any, work: Any, *args: Any, **kwargs: Any) -> Any:
        return self.run(lambda check: check.awaits(work), lambda: original(work, *args, **kwargs))


class _Wrap(_Listener):
    """A method of `DistributedDataParallel` that exchanges values."""

    def __init__(self, probe: Probe, kind: type[UnmatchedCollective], what: str) -> None:
        super().__init__(probe, kind)
        self._what = what

    def __call__(self, original: Any, wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        def enter(check: UnmatchedCollective) -> Call | None:
            given = kwargs.get("process_group") if "process_group" not in vars(wrapper) else wrapper.process_group
            group = check.group(given)
            return None if group is None else check.enter(*group, self._what, -1, self._probe.sites.here())

        return self.run(enter, lambda: original(wrapper, *args, **kwargs))


class _Forward(_Listener):
    """A forward pass of `DistributedDataParallel`."""

    def __call__(self, original: Any, wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(wrapper, *args, **kwargs)
        check = self.check
        if check is not None:
            check.forwarded(wrapper, output)
        return output


class _Backward(_Listener):
    """A backward pass, in which wrappers exchange gradients."""

    def __call__(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        check = self.check
        if check is None:
            return original(*args, **kwargs)
        check.before_any_backward()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            check.after_any_backward(error)
            raise
        check.after_any_backward(None)
        return result


class _Join(_Listener):
    """A `Join` context: ranks with fewer batches make the calls of the others."""

    def __call__(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        check = self.check
        if check is not None:
            check.is_joined = True
        return original(*args, **kwargs)
