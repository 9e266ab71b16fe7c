"""The program as it is beside the program with fixes: what the fixes changed, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import correlation, linear_regression, median

from torchlint.verify.evidence import Evidence
from torchlint.verify.launch import Ended
from torchlint.verify.verdict import size

_LONG = 1e7
"""A number of more digits is shown with an exponent."""
_STEADY = 0.5
"""Graphs grow if a straight line explains at least this share of how their number varies."""
_AGREEING = 2
"""So many pairs of runs, or more, must agree which form of the program is faster."""
_WARMING_UP = 2
"""Steps whose time is left out: they hold what is done once."""

_RISE = 10
"""A last loss that is so many times the first one is no success."""
_GRAPHS = "live graphs more a step"

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Quantity:
    """One number of both forms of the program; None where it was not measured."""

    name: str
    unit: str
    before: float | None
    after: float | None
    noise_before: float | None = None
    noise_after: float | None = None
    """By how much half of the single values differ from these or more; None where that says nothing."""

    @property
    def shown_before(self) -> str:
        """For people, with the noise."""
        return shown(self.before, self.unit, self.noise_before)

    @property
    def shown_after(self) -> str:
        """The same, with the fixes."""
        return shown(self.after, self.unit, self.noise_after)

    @property
    def label(self) -> str:
        """For people: the name with the unit, if that is not shown with the number."""
        return f"{self.name} ({self.unit})" if self.unit not in ("", "bytes") else self.name


def shown(value: float | None, unit: str = "", noise: float | None = None) -> str:
    """A number for people, with its noise; `-` where there is none."""
    if value is None:
        return "-"
    if unit == "bytes":
        return size(value)
    return _number(value) if noise is None else f"{_number(value)} \u00b1 {noise:.2g}"


def _number(value: float) -> str:
    if not isfinite(value) or abs(value) >= _LONG:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


@dataclass(frozen=True)
class Comparison:
    """Runs of both forms of the program, in their order, under one seed."""

    order: tuple[str, ...]
    seed: int
    before: tuple[Evidence, ...]
    after: tuple[Evidence, ...]
    ended: Ended
    """How the last run with the fixes ended."""

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What is compared: times only where pairs of runs agree on them, and growth where there is some."""
        noise = _noise(self.before), _noise(self.after)
        every = (
            Quantity(name, unit, of(self.before), of(self.after), *(noise if unit == "ms" else ()))
            for (name, unit), of in _QUANTITIES.items()
        )
        return tuple(item for item in every if self._is_shown(item))

    def _is_shown(self, item: Quantity) -> bool:
        if item.name == _GRAPHS:
            return bool(item.before or item.after)
        return item.unit != "ms" or self.agrees_on_time

    @property
    def agrees_on_time(self) -> bool:
        """Whether two pairs of interleaved runs or more all have the same form of the program as the faster one.

        Its slowest run must be faster than the fastest of the other form.
        """
        times = [[_median([run], "ms", _WARMING_UP) for run in runs if run.steps] for runs in (self.before, self.after)]
        before, after = ([time for time in of if time is not None] for of in times)
        if min(len(before), len(after)) < _AGREEING:
            return False
        return max(before) < min(after) or max(after) < min(before)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers warn of, whatever becomes of the findings."""
        first, last = _end(self.after, "loss", 0), _end(self.after, "loss", -1)
        if first is None or last is None or abs(last) <= _RISE * max(abs(first), 1e-12):
            return ()
        return (
            f"With the fixes the loss rises from {shown(first)} to {shown(last)}: the program does not learn yet, for "
            "another reason (try a smaller learning rate).",
        )


def points(evidence: Evidence, key: str) -> Points:
    """What was recorded under `key`, by step."""
    return [(record["step"], record[key]) for record in evidence.series if key in record]


def busiest(processes: Sequence[Evidence]) -> Evidence | None:
    """The process that made most steps."""
    return max(processes, key=lambda item: item.steps, default=None)


def _values(processes: Sequence[Evidence], key: str, skipped: int = 0) -> list[float]:
    return [value for item in processes for _, value in points(item, key)[skipped:]]


def _median(processes: Sequence[Evidence], key: str, skipped: int = 0) -> float | None:
    values = _values(processes, key, skipped)
    return median(values) if values else None


def _noise(processes: Sequence[Evidence]) -> float | None:
    """The median distance of a step's time from the median."""
    values = _values(processes, "ms", _WARMING_UP)
    middle = median(values) if values else 0.0
    return median(abs(value - middle) for value in values) if len(values) > 1 else None


def _peak(processes: Sequence[Evidence]) -> float | None:
    return max(_values(processes, "peak") or _values(processes, "memory"), default=None)


def _end(processes: Sequence[Evidence], key: str, place: int) -> float | None:
    """The first value (`place` 0) or the last one (-1) of the busiest process."""
    process = busiest(processes)
    found = points(process, key) if process is not None else []
    return found[place][1] if found else None


def _growth(processes: Sequence[Evidence], key: str) -> float | None:
    """By how much the busiest process has more at each step, in the last two thirds of the run."""
    process = busiest(processes)
    found = points(process, key) if process is not None else []
    found = found[len(found) // 3 :]
    if len(found) < 2 or found[-1][0] == found[0][0]:
        return None
    return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0])


def _graphs(processes: Sequence[Evidence]) -> float | None:
    """How many graphs more the busiest process has at each step; 0 where their number goes up and down."""
    process = busiest(processes)
    found = points(process, "graphs") if process is not None else []
    found = found[len(found) // 3 :]
    if len(found) < 2 or found[-1][0] == found[0][0]:
        return None
    steps, counts = zip(*found, strict=True)
    if len(set(counts)) == 1:
        return 0.0
    slope, _ = linear_regression(steps, counts)
    return slope if slope > 0 and correlation(steps, counts) ** 2 >= _STEADY else 0.0


_QUANTITIES: dict[tuple[str, str], Callable[[Sequence[Evidence]], float | None]] = {
    ("steps", ""): lambda runs: float(max((item.steps for item in runs), default=0)),
    (_GRAPHS, ""): _graphs,
    ("memory more a step", "bytes"): lambda runs: _growth(runs, "memory"),
    ("peak memory", "bytes"): _peak,
    ("step time, median", "ms"): lambda runs: _median(runs, "ms", _WARMING_UP),
    ("gradient norm, median", ""): lambda runs: _median(runs, "norm"),
    ("first loss", ""): lambda runs: _end(runs, "loss", 0),
    ("last loss", ""): lambda runs: _end(runs, "loss", -1),
}


def comparable(before: Sequence[Evidence], after: Sequence[Evidence]) -> list[tuple[Evidence, Evidence]]:
    """The processes of two runs that are known to be the same one: the only ones of their rank that train."""
    ones, others = _only(before), _only(after)
    return [(ones[rank], others[rank]) for rank in ones if rank in others]


def _only(processes: Sequence[Evidence]) -> dict[str, Evidence]:
    training = [item for item in processes if item.trains]
    counts = Counter(item.process.rank for item in training)
    return {item.process.rank: item for item in training if counts[item.process.rank] == 1}


def first_difference(pairs: Sequence[tuple[Evidence, Evidence]]) -> int | None:
    """The first step at which losses or gradient norms are not the same to the bit; None if all are."""
    return min((step for pair in pairs if (step := _differs(*pair)) is not None), default=None)


def _differs(one: Evidence, other: Evidence) -> int | None:
    """Steps that only one of them has made do not count."""
    last = min(one.steps, other.steps)
    for key in ("loss", "norm"):
        first, second = dict(points(one, key)), dict(points(other, key))
        steps = [int(step) for step in first.keys() | second.keys() if step <= last]
        different = [step for step in steps if first.get(step) != second.get(step)]
        if different:
            return min(different)
    return None
