"""Ranks whose parameters should be equal but differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchlint.verify.evidence import Evidence, Replica, Sighting

NAME = "differing-ranks"
_SHOWN = 3
_LATER = 2
"""The minimum number of last comparisons at which the parameters differ."""
_SAME = 3
"""Without a promise, the minimum number of earlier comparisons at which they had moved and were equal."""


@dataclass(frozen=True)
class _Look:
    """All ranks after the same step of the same optimizer: the first of them, and the names that differ."""

    evidence: Evidence
    first: Replica
    differing: list[str]
    promised: bool


def parted(processes: Sequence[Evidence]) -> Iterator[tuple[Evidence, Sighting]]:
    """For each optimizer whose parameters diverge, the evidence of a rank that shows it."""
    looks: dict[int, list[_Look]] = {}
    for (optimizer, _), replicas in sorted(_by_step(processes).items()):
        if len(replicas) > 1:
            looks.setdefault(optimizer, []).append(_look(replicas))
    for seen in looks.values():
        yield from _judged(seen)


def _by_step(processes: Sequence[Evidence]) -> Mapping[tuple[int, int], dict[int, tuple[Evidence, Replica]]]:
    """By optimizer and step, the checksums of each rank."""
    found: dict[tuple[int, int], dict[int, tuple[Evidence, Replica]]] = {}
    for evidence in processes:
        for replica in evidence.replicas:
            found.setdefault((replica.optimizer, replica.step), {})[replica.rank] = evidence, replica
    return found


def _look(replicas: Mapping[int, tuple[Evidence, Replica]]) -> _Look:
    evidence, first = replicas[min(replicas)]
    others = [replica for _, replica in replicas.values()]
    alike = [len({replica.sums[index] for replica in others}) == 1 for index in range(_shortest(others))]
    differing = [name for name, same in zip(first.names, alike, strict=False) if not same]
    return _Look(evidence, first, differing, all(replica.promised for replica in others))


def _shortest(replicas: Sequence[Replica]) -> int:
    return min(len(replica.sums) for replica in replicas)


def _judged(looks: Sequence[_Look]) -> Iterator[tuple[Evidence, Sighting]]:
    start = next(
        (number for number, look in enumerate(looks) if all(later.differing for later in looks[number:])), None
    )
    if start is None or len(looks) - start < _LATER:
        return
    before, look = looks[:start], looks[start]
    moved = len({tuple(item.first.sums) for item in before}) > 1
    if not look.promised and not (len(before) >= _SAME and moved):
        return
    shown = ", ".join(f"`{name}`" for name in look.differing[:_SHOWN])
    more = f" and {len(look.differing) - _SHOWN:,} more" if len(look.differing) > _SHOWN else ""
    why = "`DistributedDataParallel` wraps them" if look.promised else "they were the same before"
    message = f"after step {look.first.step:,} the ranks differ in {shown}{more}, although {why}"
    numbers = {"parameters": float(len(look.differing)), "looks": float(len(looks) - start)}
    yield look.evidence, Sighting(NAME, look.first.site, message, numbers, look.first.step - 1)
