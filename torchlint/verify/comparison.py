"""The program as it is compared with the program with fixes, in numbers."""

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
"""A number with more digits is shown with an exponent."""
_STEADY = 0.5
"""Graphs grow if a straight line explains at least this share of how their number varies."""
_AGREEING = 2
"""The minimum number of run pairs that must agree on which form of the program is faster."""
_WARMING_UP = 2
"""First steps whose time is left out, because they include one-time work."""

_RISE = 10
"""A last loss that is this many times the first one means that the program does not learn."""
_GRAPHS = "extra live graphs per step"

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Quantity:
    """One number of both forms of the program; None if it was not measured."""

    name: str
    unit: str
    before: float | None
    after: float | None
    noise_before: float | None = None
    noise_after: float | None = None
    """The median distance of the single values from these numbers; None if it has no meaning."""

    @property
    def shown_before(self) -> str:
        """The number as it is for people, with the noise."""
        return shown(self.before, self.unit, self.noise_before)

    @property
    def shown_after(self) -> str:
        """The number with the fixes for people, with the noise."""
        return shown(self.after, self.unit, self.noise_after)

    @property
    def label(self) -> str:
        """The name for people, with the unit if the number does not show it."""
        return f"{self.name} ({self.unit})" if self.unit not in ("", "bytes") else self.name


def shown(value: float | None, unit: str = "", noise: float | None = None) -> str:
    """A number for people, with its noise; `-` if there is none."""
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
        """The compared quantities: times only if pairs of runs agree on them, and growth only if there is some."""
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
        """Whether the same form of the program is faster in all of two or more pairs of interleaved runs.

        Its slowest run must be faster than the fastest of the other form.
        """
        times = [[_median([run], "ms", _WARMING_UP) for run in runs if run.steps] for runs in (self.before, self.after)]
        before, after = ([time for time in of if time is not None] for of in times)
        if min(len(before), len(after)) < _AGREEING:
            return False
        return max(before) < min(after) or max(after) < min(before)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the numbers, independent of the findings."""
        first, last = _end(self.after, "loss", 0), _end(self.after, "loss", -1)
        if first is None or last is None or abs(last) <= _RISE * max(abs(first), 1e-12):
            return ()
        return (
            f"With the fixes the loss rises from {shown(first)} to {shown(last)}: the program still does not learn for "
            "another reason (try a smaller learning rate).",
        )


def points(evidence: Evidence, key: str) -> Points:
    """The recorded values of `key`, by step."""
    return [(record["step"], record[key]) for record in evidence.series if key in record]


def busiest(processes: Sequence[Evidence]) -> Evidence | None:
    """The process with the most steps."""
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
    """The growth per step in the busiest process, in the last two thirds of the run."""
    process = busiest(processes)
    found = points(process, key) if process is not None else []
    found = found[len(found) // 3 :]
    if len(found) < 2 or found[-1][0] == found[0][0]:
        return None
    return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0])


def _graphs(processes: Sequence[Evidence]) -> float | None:
    """The extra graphs per step in the busiest process; 0 if their number goes up and down."""
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
    ("extra memory per step", "bytes"): lambda runs: _growth(runs, "memory"),
    ("peak memory", "bytes"): _peak,
    ("step time, median", "ms"): lambda runs: _median(runs, "ms", _WARMING_UP),
    ("gradient norm, median", ""): lambda runs: _median(runs, "norm"),
    ("first loss", ""): lambda runs: _end(runs, "loss", 0),
    ("last loss", ""): lambda runs: _end(runs, "loss", -1),
}


def comparable(before: Sequence[Evidence], after: Sequence[Evidence]) -> list[tuple[Evidence, Evidence]]:
    """The matching processes of two runs: the only training processes of their rank."""
    ones, others = _only(before), _only(after)
    return [(ones[rank], others[rank]) for rank in ones if rank in others]


def _only(processes: Sequence[Evidence]) -> dict[str, Evidence]:
    training = [item for item in processes if item.trains]
    counts = Counter(item.process.rank for item in training)
    return {item.process.rank: item for item in training if counts[item.process.rank] == 1}


def first_difference(pairs: Sequence[tuple[Evidence, Evidence]]) -> int | None:
    """The first step at which losses or gradient norms are not bitwise equal; None if all are."""
    return min((step for pair in pairs if (step := _differs(*pair)) is not None), default=None)


def _differs(one: Evidence, other: Evidence) -> int | None:
    """Steps that only one of them made do not count."""
    last = min(one.steps, other.steps)
    for key in ("loss", "norm"):
        first, second = dict(points(one, key)), dict(points(other, key))
        steps = [int(step) for step in first.keys() | second.keys() if step <= last]
        different = [step for step in steps if first.get(step) != second.get(step)]
        if different:
            return min(different)
    return None
