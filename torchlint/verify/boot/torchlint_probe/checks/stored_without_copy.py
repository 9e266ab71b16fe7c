"""A program stores the same tensor again and again and changes it in place: all stored values equal the last one.

The check looks at lists that go into `stack`, `cat` or `tensor`. It reports a problem if at least half of the elements
of a list were the same object in each of at least three calls of a line, and one of these objects was changed in place
between the calls. The reported line is the one that fills the list, if it is known, and otherwise the call. Store
`x.clone()`.

Source: Mnih et al., "Human-level control through deep reinforcement learning" (2015): a replay memory holds earlier
states.
"""

from __future__ import annotations

import gc
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Operated, Sighting

_JOINS = (torch.stack, torch.cat, torch.concat, torch.vstack, torch.tensor, torch.as_tensor)
_FEWEST = 4
_CALLS = 3
_MOST_CALLS = 12
_REFERRERS = 2_000


class _Joins:
    """The calls of one line."""

    def __init__(self) -> None:
        self.calls = self.changed = self.items = self.distinct = 0
        self.is_right = False
        self.states: dict[int, tuple[weakref.ref[Any], int]] = {}
        """By identity, repeated items and the state of their values at the last call."""
        self.place = 0


class StoredWithoutCopy(Check):
    """Compares the identities of list items."""

    name = "stored-without-copy"
    code = "TW607"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Joins] = {}

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(_JOINS, self._joined)

    def _joined(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        items = args[0] if args else None
        if not isinstance(items, (list, tuple)) or len(items) < _FEWEST or isinstance(items[0], (int, float, list)):
            return
        site = self.probe.sites.here()
        joins = self._lines.setdefault(site, _Joins())
        if joins.is_right or joins.calls >= _MOST_CALLS:
            return
        joins.calls += 1
        counts = Counter(map(id, items))
        repeated = {id(item): item for item in items if counts[id(item)] > 1}
        joins.is_right = 2 * len(counts) > len(items)
        if joins.is_right:
            joins.states.clear()
            return
        joins.items, joins.distinct = len(items), len(counts)
        for number, item in repeated.items():
            self._compare(joins, number, item)

    def _compare(self, joins: _Joins, number: int, item: Any) -> None:
        state = _state(item)
        known = joins.states.get(number)
        if state is None:
            return
        if known is not None and known[0]() is item and known[1] != state:
            joins.changed += 1
            if joins.changed == 1:
                joins.place = self._stored_at(item)
        joins.states[number] = weakref.ref(item), state

    def _stored_at(self, item: Any) -> int:
        """The line that fills the container of an item; 0 if that is not known."""
        around = gc.get_referrers(item)[:_REFERRERS]
        around += gc.get_referrers(*[one for one in around if isinstance(one, (tuple, dict))])[:_REFERRERS]
        holders = {id(one) for one in around}
        keeps = (keep for every in self.probe.keeps for keep in list(every.by_thread.values()))
        claims = {(keep.claim.file, keep.claim.statement[0]) for keep in keeps if keep.container_id in holders}
        return self.probe.sites.place(*claims.pop()) if len(claims) == 1 else 0

    def sightings(self) -> Iterator[Sighting]:
        for site, joins in list(self._lines.items()):
            if site and not joins.is_right and joins.changed and joins.calls >= _CALLS:
                many = "one object" if joins.distinct == 1 else f"{joins.distinct:,} objects"
                message = (
                    f"{joins.items:,} stored items are {many}, which the program changes in place: "
                    "earlier values are lost"
                )
                yield Sighting(joins.place or site, message, {"items": joins.items, "distinct": joins.distinct})


def _state(item: Any) -> int | None:
    """A number that differs after a change in place; None for other values than tensors and arrays."""
    if isinstance(item, torch.Tensor):
        return int(item._version)
    data = getattr(item, "tobytes", None)
    return zlib.crc32(data()) if data is not None and getattr(item, "nbytes", 1 << 20) < 1 << 16 else None
