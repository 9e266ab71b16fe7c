"""Ranks that wait for collective calls that never come, from what each rank has reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from torchlint.verify.evidence import Collective, Member, Waiting

_LONG = 5.0
"""Seconds of waiting from which on a call counts."""
_EVERY = 1.0
_CLOSED = ("Connection closed by peer", "Connection reset by peer", "Timed out", "Broken pipe")
"""Parts of the errors of calls whose partner is gone."""


class Lookout:
    """Looks every second whether ranks are stuck."""

    def __init__(self, members: Callable[[], Sequence[Member]]) -> None:
        self._members = members
        self._next = time.monotonic() + _EVERY
        self.has_seen = False
        """Whether it has seen stuck ranks."""

    @property
    def sees_stuck_ranks(self) -> bool:
        """Whether some rank waits for calls that never come."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _EVERY
        self.has_seen = bool(stuck(latest(self._members())))
        return self.has_seen


def latest(members: Iterable[Member]) -> dict[int, Member]:
    """By rank, the process that began last: an elastic launcher starts ranks again."""
    return {member.rank: member for member in sorted(members, key=lambda member: member.began)}


def stuck(ranks: Mapping[int, Member]) -> dict[int, set[int]]:
    """The ranks that can never go on, each with the ranks that it waits for.

    Those have ended, or are stuck themselves. Nothing is known of programs in a `Join` context, and of ranks that make
    calls in several threads.
    """
    if any(member.is_joined for member in ranks.values()):
        return {}
    ended = {rank for rank, member in ranks.items() if member.has_ended}
    waits = {
        rank: absent
        for rank, member in ranks.items()
        if (call := waiting(member)) is not None and (absent := missing(member, call, ranks))
    }
    while True:
        hopeful = [rank for rank, absent in waits.items() if not absent & (ended | set(waits))]
        if not hopeful:
            return {rank: absent & (ended | set(waits)) for rank, absent in waits.items()}
        for rank in hopeful:
            del waits[rank]


def waiting(member: Member) -> Waiting | None:
    """The call that a rank has waited in for long, or that failed since its partner is gone."""
    if member.is_threaded:
        return None
    calls = (call for call in member.waiting if call.seconds >= _LONG or is_lost(call.error))
    return next(calls, None)


def is_lost(error: str) -> bool:
    """Whether an error only says that another rank is gone."""
    return any(text in error for text in _CLOSED)


def missing(member: Member, call: Waiting, ranks: Mapping[int, Member]) -> set[int]:
    """The ranks that have not begun a call, or another one in its place."""
    if call.peers:
        return {rank for rank in call.peers if rank in ranks}
    group = member.groups[call.group]
    return {
        rank
        for rank in group.ranks
        if rank != member.rank and rank in ranks and not _has_begun(call, group.name, ranks[rank])
    }


def _has_begun(call: Waiting, group: str, other: Member) -> bool:
    begun = max((item.calls for item in other.groups if item.name == group), default=0)
    found = numbered(other, group, call.number)
    return begun >= call.number and (found is None or found.kind == call.kind)


def numbered(member: Member, group: str, number: int) -> Collective | None:
    """The call of this number, if it was noted."""
    calls = (item for item in member.calls if item.number == number and member.groups[item.group].name == group)
    return next(calls, None)
