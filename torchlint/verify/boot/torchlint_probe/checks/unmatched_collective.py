"""Ranks make different collective calls, so some wait forever, or exchange values that do not belong together.

The check records the calls of `torch.distributed` in each rank: collectives, calls that create groups, and the
synchronizations that `DistributedDataParallel` runs when it is created, in its forward pass (buffers) and in the
backward pass. It numbers the calls of a group in each rank. It reports a problem if the same number is a different
collective in another rank, or if a rank waits for five seconds for a call that never comes, because the other ranks
have ended or are waiting, too. The run then stops. Programs in a `Join` context, and ranks with collectives in several
threads, are left out.

Source: "Collective functions" and "Debugging torch.distributed applications" in PyTorch's documentation.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from torchlint_probe.checks.check import Check
from torchlint_probe.collectives import Call, tap
from torchlint_probe.contained import contained
from torchlint_probe.graphs import tensors_in

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_FIRST, _LAST, _SHOWN = 400, 100, 20
"""The numbers of first and last calls in the evidence, and of last calls for the launcher."""
_LONG = 3.0
"""Seconds of waiting after which the evidence is written."""
_WORLD = "world"
_GRADIENTS = "the reduction of gradients in `DistributedDataParallel`"


class UnmatchedCollective(Check):
    """Numbers the calls of each group."""

    name = "unmatched-collective"
    code = "TW404"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self.rank = self.world = -1
        self.worlds = 0
        """How often a process group was initialized."""
        self.is_joined = self.has_left = False
        self.began = time.monotonic()
        self._local = threading.local()
        self._threads: set[int] = set()
        self._groups: dict[str, list[int]] = {}
        self._counts: dict[str, int] = {}
        self._first: list[list[Any]] = []
        self._last: deque[list[Any]] = deque(maxlen=_LAST)
        self._running: list[Call] = []
        self._works: dict[int, Call] = {}
        """Calls by the identity of what they returned, to be waited for."""
        self._pending: dict[int, tuple[str, list[int]]] = {}
        """By the identity of wrappers that the next backward exchanges gradients of, their groups."""
        self._backward_site = 0
        self._is_written = self._was_interrupted = False

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        tap(hooks, probe, cls)

    # -- events

    @property
    def trouble_of(self) -> Probe:
        return self.probe

    def group(self, group: Any) -> tuple[str, list[int]] | None:
        """The name and ranks of a group; None if this rank is not in it."""
        if not distributed.is_initialized() or isinstance(group, int):
            return None
        group = group if group is not None else distributed.group.WORLD
        ranks = [int(rank) for rank in distributed.get_process_group_ranks(group)]
        return f"{self.worlds}:{group.group_name}", ranks

    @contained
    def enter(self, group: str, ranks: Sequence[int], kind: str, root: int, site: int) -> Call | None:
        """A call of a group begins. A program that is being stopped may make others than it would have made."""
        if self._is_stopped:
            return None
        self._groups[group] = list(ranks)
        number = self._counts[group] = self._counts.get(group, 0) + 1
        self._note([group, number, kind, root, site])
        return self.start(Call(group, number, kind, [], site, time.monotonic()))

    @property
    def _is_stopped(self) -> bool:
        """Whether the program cleans up after torchlint or the user has stopped it."""
        stops = isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit))
        self._was_interrupted |= stops
        return bool(stops or self.probe.budget.reason)

    @property
    def _was_stopped(self) -> bool:
        """Whether this rank may have ended because it was stopped: by its budget, its deadline or a signal."""
        probe = self.probe
        is_late = time.monotonic() >= probe.plan.deadline
        return bool(self._was_interrupted or probe.budget.reason or is_late or "KeyboardInterrupt" in probe.error)

    def start(self, call: Call) -> Call:
        """From now on this thread waits."""
        self._threads.add(threading.get_ident())
        self._running = [item for item in self._running if not item.error]
        self._running.append(call)
        self._is_written = False
        return call

    def knows(self, group: str) -> None:
        """The group of a call between two ranks, which is not numbered."""
        self._groups.setdefault(group, [])

    @contained
    def leave(self, call: Call, error: BaseException | None = None) -> None:
        """A call ends; one that raised is kept until the next one begins."""
        if error is not None:
            call.error = f"{type(error).__name__}: {error}"[:300]
        elif call in self._running:
            self._running.remove(call)

    @property
    def depth(self) -> int:
        """How many calls of `torch.distributed` are running in this thread."""
        return getattr(self._local, "depth", 0)

    @depth.setter
    def depth(self, depth: int) -> None:
        self._local.depth = depth

    def _note(self, call: list[Any]) -> None:
        if len(self._first) < _FIRST:
            self._first.append(call)
        else:
            self._last.append(call)

    @contained
    def works(self, call: Call, work: Any) -> None:
        """An asynchronous call has returned."""
        if len(self._works) > _FIRST:
            self._works.clear()
        self._works[id(work)] = call

    @contained
    def awaits(self, work: Any) -> Call | None:
        """The program waits for an asynchronous call."""
        call = None if self.depth else self._works.get(id(work))
        if call is None:
            return None
        return self.start(
            Call(call.group, call.number, call.kind, call.peers, self.probe.sites.here(), time.monotonic())
        )

    @contained
    def forwarded(self, wrapper: Any, output: Any) -> None:
        """A wrapper has run: the next backward through its output exchanges gradients."""
        group = self.group(wrapper.process_group)
        nodes = {tensor.grad_fn for tensor in tensors_in([output]) if tensor.grad_fn is not None}
        if not torch.is_grad_enabled() or not wrapper.require_backward_grad_sync or group is None:
            return
        key = id(wrapper)
        self._pending[key] = group
        for node in nodes:
            node.register_prehook(lambda gradients: self._exchange(key))

    @contained
    def _exchange(self, key: int) -> None:
        group = self._pending.pop(key, None)
        if group is not None and self._backward_site:
            self.enter(*group, _GRADIENTS, -1, self._backward_site)

    def before_any_backward(self) -> None:
        """A backward begins, observed or not."""
        if self._pending:
            self._backward_site = self.probe.sites.here()

    @contained
    def after_any_backward(self, error: BaseException | None) -> None:
        """A backward ends."""
        site, self._backward_site = self._backward_site, 0
        if site:
            for call in [item for item in self._running if item.site == site and item.kind == _GRADIENTS]:
                self.leave(call, error)

    @contained
    def starts(self, rank: int, world: int) -> Call | None:
        """The process joins the other ranks."""
        self.worlds += 1
        self.rank, self.world, self.has_left = rank, world, False
        self.probe.wait_for_ranks()
        if rank < 0 or world < 1:
            return None
        return self.enter(f"{self.worlds}:{_WORLD}", range(world), "init_process_group", -1, self.probe.sites.here())

    @contained
    def started(self) -> None:
        """The process has joined them."""
        self.rank, self.world = distributed.get_rank(), distributed.get_world_size()

    # -- evidence

    @property
    def members(self) -> list[dict[str, Any]]:
        """This rank, if it has a number."""
        return [self.member(len(self._first) + _LAST)] if self.rank >= 0 else []

    def member(self, calls: int) -> dict[str, Any]:
        """This rank with its last calls, as JSON values."""
        now = time.monotonic()
        names = list(self._groups)
        number = {name: index for index, name in enumerate(names)}
        noted = [*self._first, *self._last][-calls:]
        return {
            "rank": self.rank,
            "world": self.world,
            "began": self.began,
            "is_threaded": len(self._threads) > 1,
            "is_joined": self.is_joined,
            "has_ended": (self.has_left or self.probe.finished) and not self._was_stopped,
            "groups": [
                {"name": name, "ranks": self._groups[name], "calls": self._counts.get(name, 0)} for name in names
            ],
            "calls": [
                {"group": number[group], "number": count, "kind": kind, "root": root, "site": site}
                for group, count, kind, root, site in noted
                if group in number
            ],
            "waiting": [
                {
                    "group": number[call.group],
                    "number": call.number,
                    "kind": call.kind,
                    "peers": call.peers,
                    "site": call.site,
                    "seconds": now - call.start,
                    "error": call.error,
                }
                for call in list(self._running)
                if call.group in number
            ],
        }

    @property
    def standing(self) -> dict[str, Any] | None:
        """This rank, for the launcher; None without ranks. Evidence is written once if the rank waits for long."""
        if self.rank < 0:
            return None
        if not self._is_written and any(time.monotonic() - call.start > _LONG for call in list(self._running)):
            self._is_written = True
            self.probe.log.write()
        return self.member(_SHOWN)
