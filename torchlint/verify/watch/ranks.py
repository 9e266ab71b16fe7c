"""Ranks whose parameters should be equal but differ, and ranks whose batches should differ but are equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchlint.verify.evidence import Batch, Evidence, Replica, Sighting

NAME = "differing-ranks"
ALIKE = "ranks-alike"
_SHOWN = 3
_BATCHES = 3
"""The minimum number of batches that all ranks got."""
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


def alike(processes: Sequence[Evidence]) -> Iterator[tuple[Evidence, Sighting]]:
    """For each wrapper whose ranks all get the same batches, the evidence of the first rank that shows it."""
    found: dict[int, dict[int, dict[int, tuple[Evidence, Batch]]]] = {}
    for evidence in processes:
        for batch in evidence.batches:
            found.setdefault(batch.wrapper, {}).setdefault(batch.call, {})[batch.rank] = evidence, batch
    for calls in found.values():
        sums = [{batch.sum for _, batch in by_rank.values()} for by_rank in calls.values() if _is_complete(by_rank)]
        if len(sums) < _BATCHES or any(len(one) > 1 for one in sums) or len(set.union(*sums)) < len(sums):
            continue
        evidence, first = calls[min(calls)][0]
        message = f"all {first.ranks:,} ranks train on the same batches: each of the first {len(sums):,} was equal"
        yield (
            evidence,
            Sighting(ALIKE, first.site, message, {"ranks": float(first.ranks), "batches": float(len(sums))}, 0),
        )


def _is_complete(by_rank: Mapping[int, tuple[Evidence, Batch]]) -> bool:
    """Whether all ranks of a wrapper were observed."""
    return all(batch.ranks == len(by_rank) for _, batch in by_rank.values())
