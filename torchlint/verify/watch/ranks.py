"""Ranks whose parameters should be equal but differ, whose batches are equal, or whose collective calls differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torchlint.verify.evidence import Batch, Collective, Evidence, Member, Replica, Sighting, Waiting
from torchlint.verify.stuck import latest, numbered, stuck, waiting
from torchlint.verify.verdict import times

NAME = "differing-ranks"
ALIKE = "ranks-alike"
UNMATCHED = "unmatched-collective"
InBranch = Callable[[Evidence, Sequence[Sequence[int]]], bool]
_RANKS = 4
"""The number of ranks that a message names."""
_MEANT = "average the gradients of these, too, unless each rank should have its own (experts, for example)"
_SAME_CALLS = "Let every rank make the same calls in the same order, and equally often"
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
    averaged: bool


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
    return _Look(
        evidence,
        first,
        differing,
        all(replica.promised for replica in others),
        all(replica.averaged for replica in others),
    )


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
    averaged = not before and len(looks) >= _SAME and all(item.averaged for item in looks)
    if not look.promised and not averaged and not (len(before) >= _SAME and moved):
        yield from _in_part(looks)
        return
    shown = ", ".join(f"`{name}`" for name in look.differing[:_SHOWN])
    more = f" and {len(look.differing) - _SHOWN:,} more" if len(look.differing) > _SHOWN else ""
    why = "`DistributedDataParallel` wraps them" if look.promised else "they were the same before"
    if averaged and not look.promised:
        why = "the program averages all gradients: broadcast the first values, or use one seed"
    message = f"after step {look.first.step:,} the ranks differ in {shown}{more}, although {why}"
    numbers = {"parameters": float(len(look.differing)), "looks": float(len(looks) - start)}
    yield look.evidence, Sighting(NAME, look.first.site, message, numbers, look.first.step - 1)


def _in_part(looks: Sequence[_Look]) -> Iterator[tuple[Evidence, Sighting]]:
    """Parameters that always differ, although all others move and stay equal: something averages only those."""
    look = looks[0]
    differing = set(look.differing)
    same = [index for index, name in enumerate(look.first.names) if name not in differing]
    moved = len({tuple(item.first.sums[index] for index in same) for item in looks}) > 1
    if len(looks) < _SAME or not same or not moved or any(set(item.differing) != differing for item in looks):
        return
    shown = ", ".join(f"`{name}`" for name in look.differing[:_SHOWN])
    more = f" and {len(differing) - _SHOWN:,} more" if len(differing) > _SHOWN else ""
    others = "1 other parameter stays" if len(same) == 1 else f"{len(same):,} other parameters stay"
    message = f"the ranks differ in {shown}{more}, although {others} equal"
    parts = _moving_parts([item.first for item in looks], same)
    is_split = bool(parts) and all(_part(name) in parts for name in differing)
    if is_split:  # a layer that is averaged in part was not meant to be a rank's own
        message = f"{message}: gradients of the same layers are averaged only in part"
    numbers = {"parameters": float(len(differing)), "equal": float(len(same)), "looks": float(len(looks))}
    evidence, site = _averaging(look.evidence, look.first.site)
    yield evidence, Sighting(NAME, site, message, numbers, look.first.step - 1, "" if is_split else _MEANT)


def _moving_parts(replicas: Sequence[Replica], same: Sequence[int]) -> set[str]:
    """The layers of which a parameter moves and stays equal in all ranks."""
    first, last = replicas[0], replicas[-1]
    return {_part(first.names[index]) for index in same if first.sums[index] != last.sums[index]} - {""}


def _part(name: str) -> str:
    """The layer of a parameter; empty where only its number is known."""
    return name.rpartition(".")[0]


def _averaging(evidence: Evidence, made: int) -> tuple[Evidence, int]:
    """The line that averages gradients, or calls the function which does, beside the one that made the optimizer."""
    calls = [call for member in evidence.members for call in member.calls if call.kind.startswith("all_reduce")]
    stack = evidence.stacks[calls[-1].site] if calls else []
    if not stack:
        return evidence, made
    common, beside = 0, evidence.stacks[made]
    while common < min(len(stack), len(beside)) and stack[-1 - common] == beside[-1 - common]:
        common += 1
    inner = stack[max(0, len(stack) - common - 1) :]
    return replace(evidence, stacks=[*evidence.stacks, inner]), len(evidence.stacks)


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
        if not first.is_wrapped and not all(_averages(seen) for seen, _ in calls[min(calls)].values()):
            continue
        message = f"all {first.ranks:,} ranks train on the same batches: each of the first {len(sums):,} was equal"
        yield (
            evidence,
            Sighting(ALIKE, first.site, message, {"ranks": float(first.ranks), "batches": float(len(sums))}, 0),
        )


def _averages(evidence: Evidence) -> bool:
    """Whether a rank reduces all gradients over the ranks, at each step that was compared."""
    return len(evidence.replicas) >= _SAME and all(replica.averaged for replica in evidence.replicas)


def _is_complete(by_rank: Mapping[int, tuple[Evidence, Batch]]) -> bool:
    """Whether all ranks of a wrapper were observed."""
    return all(batch.ranks == len(by_rank) for _, batch in by_rank.values())


def unmatched(processes: Sequence[Evidence], is_in_branch: InBranch) -> Iterator[tuple[Evidence, Sighting]]:
    """The first collective call that differs between ranks, or else one that ranks wait in forever.

    `is_in_branch` tells whether a line of an evidence's file is in an `if` statement.
    """
    evidence = {item.began: seen for seen in processes for item in seen.members}
    ranks = latest(item for seen in processes for item in seen.members)
    if len(ranks) < 2 or any(member.is_joined for member in ranks.values()):
        return
    seen = {rank: evidence[member.began] for rank, member in ranks.items()}
    yield from _Ranks(ranks, seen, is_in_branch).sightings()


def compared(processes: Sequence[Evidence], is_in_branch: InBranch) -> list[Evidence]:
    """The evidence of the processes, with what the calls of their ranks show."""
    seen = [*unmatched(processes, is_in_branch), *alike(processes)]
    if not seen:
        return with_acquittals(processes)
    return [
        replace(item, sightings=[*item.sightings, *(sighting for evidence, sighting in seen if evidence is item)])
        for item in processes
    ]


def with_acquittals(processes: Sequence[Evidence]) -> list[Evidence]:
    """The evidence of the processes, with the lines whose calls all ranks of their group made."""
    ranks = latest(item for seen in processes for item in seen.members)
    right = {} if stuck(ranks) or len(ranks) < 2 else {rank: _matched(member, ranks) for rank, member in ranks.items()}
    return [
        replace(
            seen,
            acquittals=[*seen.acquittals, *(item for member in seen.members for item in right.get(member.rank, []))],
        )
        for seen in processes
    ]


def _matched(member: Member, ranks: Mapping[int, Member]) -> list[Sighting]:
    """The lines of a rank whose calls have all been made by the others, too."""
    counts: Counter[int] = Counter()
    odd = set()
    for call in member.calls:
        group = member.groups[call.group]
        others = [numbered(ranks[rank], group.name, call.number) if rank in ranks else None for rank in group.ranks]
        counts[call.site] += 1
        if len(others) < 2 or any(
            other is None or (other.kind, other.root) != (call.kind, call.root) for other in others
        ):
            odd.add(call.site)
    return [
        Sighting(
            UNMATCHED,
            site,
            f"all ranks of the group made the {times(count, 'call')} of this line",
            {"calls": float(count)},
            -1,
        )
        for site, count in counts.items()
        if site not in odd
    ]


@dataclass(frozen=True)
class _Ranks:
    """The ranks of a run, and the evidence of each."""

    members: Mapping[int, Member]
    evidence: Mapping[int, Evidence]
    is_in_branch: InBranch

    def sightings(self) -> Iterator[tuple[Evidence, Sighting]]:
        waits = stuck(self.members)
        differing = self._differing()
        if differing is not None:
            yield self._mismatch(*differing, waits)
        elif waits:
            yield self._left_alone(waits)

    def _differing(self) -> tuple[str, int] | None:
        """The group and number of the first call that is not the same in all ranks."""
        calls: dict[tuple[str, int], set[tuple[str, int]]] = {}
        for member in self.members.values():
            for call in [] if member.is_threaded else member.calls:
                calls.setdefault((member.groups[call.group].name, call.number), set()).add((call.kind, call.root))
        return min((place for place, kinds in calls.items() if len(kinds) > 1), default=None)

    def _mismatch(self, group: str, number: int, waits: Mapping[int, set[int]]) -> tuple[Evidence, Sighting]:
        calls = self._calls(group, number)
        rank = self._odd_one(group, number)
        shown = ", ".join(f"{self._call(one, call)}" for one, call in sorted(calls.items())[:_RANKS])
        end = ": they wait for each other forever" if waits else ""
        more = self._first_difference(group, number, rank)
        message = f"collective call {number:,} is not the same in all ranks: {shown}{end}{more}. {_SAME_CALLS}"
        return self._sighting(rank, self._parting(group, number, rank).site, message, number)

    def _left_alone(self, waits: Mapping[int, set[int]]) -> tuple[Evidence, Sighting]:
        failed = [rank for rank, seen in self.evidence.items() if seen.error and seen.error_site and rank not in waits]
        rank = min(waits, key=self._is_in_group)
        call = waiting(self.members[rank])
        assert call is not None
        others = sorted(one for one in self.members if one != rank)[: _RANKS - 1]
        shown = "; ".join(self._standing(one, call, self.members[rank].groups[call.group].name) for one in others)
        if failed:
            site, error = self.evidence[failed[0]].error_site, self.evidence[failed[0]].error
            place = self.evidence[rank].place(call.site)
            message = (
                f"rank {failed[0]} fails here: {error[:150]}. Rank {rank} waits for it in {_kind(call.kind)} ({place})"
            )
            return self._sighting(failed[0], site, message, call.number)
        message = f"rank {rank} waits in {_kind(call.kind)} forever: {shown}. {_SAME_CALLS}"
        return self._sighting(rank, call.site, message, call.number)

    def _is_in_group(self, rank: int) -> tuple[bool, int]:
        """Whether a stuck rank waits for a whole group: one that waits for a message stands where it is missing."""
        call = waiting(self.members[rank])
        return call is None or not call.peers, rank

    def _sighting(self, rank: int, site: int, message: str, number: int) -> tuple[Evidence, Sighting]:
        numbers = {"rank": float(rank), "call": float(number)}
        return self.evidence[rank], Sighting(UNMATCHED, site, message, numbers, -1)

    def _call(self, rank: int, call: Collective) -> str:
        root = f" with rank {call.root}" if call.root >= 0 else ""
        place = self.evidence[rank].place(call.site)
        return f"rank {rank} runs {_kind(call.kind)}{root} (call {self._count(rank, call):,} at {place})"

    def _count(self, rank: int, call: Collective) -> int:
        """How often a rank has made a call of this line, up to this one."""
        member = self.members[rank]
        alike = [item for item in member.calls if item.site == call.site and item.group == call.group]
        return sum(item.number <= call.number for item in alike)

    def _standing(self, rank: int, call: Waiting, group: str) -> str:
        """Where a rank is that another one waits for."""
        member = self.members[rank]
        own = waiting(member)
        calls = next((item.calls for item in member.groups if item.name == group), 0)
        made = "" if call.peers else f" after {calls:,} of {call.number:,} calls"
        if own is not None:
            return f"rank {rank} waits in {_kind(own.kind)} ({self.evidence[rank].place(own.site)}){made}"
        last = member.calls[-1:]
        where = f", the last one at {self.evidence[rank].place(last[0].site)}" if last else ""
        return f"rank {rank} {'has ended' if member.has_ended else 'runs'}{made}{where}"

    def _calls(self, group: str, number: int) -> dict[int, Collective]:
        found = {rank: numbered(member, group, number) for rank, member in self.members.items()}
        return {rank: call for rank, call in found.items() if call is not None}

    def _lines(self, group: str, number: int) -> dict[int, str]:
        return {rank: self.evidence[rank].place(call.site) for rank, call in self._calls(group, number).items()}

    def _odd_one(self, group: str, number: int) -> int:
        """The rank to blame.

        Its line is in a branch and the rarest, best one that other ranks never reach. A call that follows a loop is
        rare, too; then the last call in the loop is to blame.
        """
        start = self._start(group, number)
        calls, lines = self._calls(group, start), self._lines(group, start)
        reached = {rank: self._all_lines(rank) for rank in self.members}

        def commonness(rank: int) -> tuple[int, int, int, int]:
            others = [self.evidence[one].stacks[call.site] for one, call in calls.items() if one != rank]
            own = self.evidence[rank].stacks[calls[rank].site]
            branches = self.is_in_branch(
                self.evidence[rank], [frame for frame in own if not all(frame in one for one in others)]
            )
            ran = sum(lines[rank] in others for others in reached.values())
            return not branches, ran if branches else -ran, sum(line == lines[rank] for line in lines.values()), rank

        return min(lines, key=commonness)

    def _all_lines(self, rank: int) -> set[str]:
        return {self.evidence[rank].place(call.site) for call in self.members[rank].calls}

    def _start(self, group: str, number: int) -> int:
        """The first of the calls up to this one whose lines all differ between ranks."""
        while number > 1 and len(set(self._lines(group, number - 1).values())) > 1:
            number -= 1
        return number

    def _parting(self, group: str, number: int, rank: int) -> Collective:
        return self._calls(group, self._start(group, number))[rank]

    def _first_difference(self, group: str, number: int, rank: int) -> str:
        start = self._start(group, number)
        return f"; since call {start:,} they come from different lines" if start < number else ""


def _kind(kind: str) -> str:
    return f"`{kind}`" if " " not in kind else kind
