"""Plots of each step, as SVG drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchlint.verify.comparison import Comparison, busiest, points
from torchlint.verify.evidence import Evidence

_MAGNITUDES = 1_000
_SIZE = (8.0, 2.6)
_COLOURS = ("#b3261e", "#1f6feb", "#2e7d32")
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


@dataclass(frozen=True)
class Curve:
    """Values by step. A curve on the `right` has an axis of its own."""

    label: str
    points: Sequence[tuple[float, float]]
    right: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Plot:
    """A title and its curves. An axis that does not start `from_zero` starts at the smallest value."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    from_zero: bool = True

    @property
    def spans_magnitudes(self) -> bool:
        """Whether its values are positive and differ by several orders of magnitude, so that it needs a log scale."""
        values = [value for curve in self.curves if not curve.right for _, value in curve.points]
        return bool(values) and min(values) > 0 and max(values) > _MAGNITUDES * min(values)

    @property
    def is_empty(self) -> bool:
        return not any(curve.points for curve in self.curves)


def plot(rule: str, evidence: Evidence) -> Plot:
    """The plot for findings of a rule; empty if nothing was measured."""
    return _PLOTS.get(rule, _memory)(evidence)


def _series(evidence: Evidence, key: str, scale: float = 1.0) -> list[tuple[float, float]]:
    return [(record["step"], record[key] * scale) for record in evidence.series if key in record]


def _norms(evidence: Evidence) -> Plot:
    return Plot(
        "Gradient norm at each measured step",
        "norm of sampled gradients",
        (
            Curve("accumulated: used by the step", _series(evidence, "norm"), dots=True),
            Curve("fresh: added by the last backward", _series(evidence, "fresh"), dots=True),
        ),
    )


def _memory(evidence: Evidence) -> Plot:
    what = "memory of the process" if evidence.process.device == "cpu" else "memory allocated on the GPU"
    return Plot(
        "Live graphs and memory at each step",
        "autograd graphs alive",
        (
            Curve("graphs alive", _series(evidence, "graphs")),
            Curve(f"{what} (MB, right)", _series(evidence, "memory", 1e-6), right=True),
        ),
    )


def _times(evidence: Evidence) -> Plot:
    """The records without the first step, which includes all one-time work."""
    records = [record for record in evidence.series if record["step"] > 1]
    slow = [(record["step"], record["ms"]) for record in records if record.get("anomaly") or "emptied" in record]
    fast = [
        (record["step"], record["ms"]) for record in records if not record.get("anomaly") and "emptied" not in record
    ]
    return Plot("Time of each step", "ms", (Curve("with", slow, dots=True), Curve("without", fast, dots=True)))


_PLOTS = {
    "missing-zero-grad": _norms,
    "cleared-before-step": _norms,
    "step-without-backward": _norms,
    "training-under-no-grad": _norms,
    "anomaly-detection-left-on": _times,
    "empty-cache-in-loop": _times,
}


def comparisons(comparison: Comparison) -> tuple[Plot, ...]:
    """Curves of both forms of the program."""
    drawn = (
        ("Loss passed to `backward` at each step", "loss", "loss", False),
        ("Gradient norm at each measured step", "norm of sampled gradients", "norm", True),
        ("Autograd graphs alive at each step", "graphs", "graphs", True),
    )
    found = (("as it is", busiest(comparison.before)), ("with the fixes", busiest(comparison.after)))
    forms = [(name, form) for name, form in found if form is not None]
    return tuple(
        Plot(
            title,
            unit,
            tuple(
                Curve(name, [point for point in points(form, key) if point[0] in steps], dots=key == "norm")
                for name, form in forms
            ),
            from_zero,
        )
        for title, unit, key, from_zero in drawn
        for steps in [_common_steps([form for _, form in forms], key)]
    )


def _common_steps(forms: Sequence[Evidence], key: str) -> set[float]:
    """The steps at which all have been measured."""
    measured = [{step for step, _ in points(form, key)} for form in forms]
    return set.intersection(*measured) if measured else set()


def svg(plot: Plot, name: str) -> str:
    """The plot as an SVG element; `name` makes its identifiers unique in a page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Mapping[Any, Any] = {**_STYLE, "svg.hashsalt": name}
    with mpl.rc_context(style):  # type: ignore[arg-type,unused-ignore]
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        axes.set_xlabel("step")
        axes.set_ylabel(plot.unit)
        lines = []
        for number, curve in enumerate(plot.curves):
            if not curve.points:
                continue
            target = axes.twinx() if curve.right else axes
            lines += _draw(target, curve, number, name)
        if plot.spans_magnitudes:
            axes.set_yscale("log")
        elif plot.from_zero:
            axes.set_ylim(bottom=0)
        axes.legend(handles=lines, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(lines), frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _draw(axes: Any, curve: Curve, number: int, name: str) -> list[Any]:
    if curve.right:
        axes.spines["right"].set_visible(True)
        axes.grid(False)
    steps, values = zip(*curve.points, strict=True)
    marker = "." if curve.dots or len(steps) == 1 else ""
    lines: list[Any] = axes.plot(
        steps, values, color=_COLOURS[number], label=curve.label, linewidth=1.4, marker=marker, alpha=0.9
    )
    lines[0].set_gid(f"{name}-curve-{number}")
    return lines
