"""Lines that the evidence of a run points at: gradients used again, graphs retained, caches emptied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torchlint.verify.evidence import Evidence

Place = tuple[str, int]
"""A real path, and a line."""

RULES = (
    "missing-zero-grad",
    "step-without-backward",
    "training-under-no-grad",
    "undetached-accumulation",
    "retain-graph-in-loop",
    "empty-cache-in-loop",
    "anomaly-detection-left-on",
)
"""Rules for which the probe collects evidence without a finding, from any line."""


def proposals(evidence: Evidence) -> Iterator[tuple[str, list[int]]]:
    """Rules, each with sites that may have broken it; the first one that did is reported."""
    for rule, choices in _CHOICES.items():
        for sites in choices(evidence):
            yield rule, [*dict.fromkeys(sites)]


def innermost(evidence: Evidence, site: int) -> Place | None:
    """The user's line of a site; None if no user code was running."""
    stack = evidence.stacks[site]
    return (evidence.files[stack[0][0]], stack[0][1]) if stack else None


def _stale(evidence: Evidence) -> Iterator[list[int]]:
    """By optimizer, the backwards that added to used gradients, or else the steps that used them again."""
    for item in evidence.optimizers:
        adding = _sites(item.added_stale) + (_sites(item.added) if item.leftover else [])
        yield adding + _sites(item.stale) + _sites(item.leftover)


def _sites(counts: list[list[int]]) -> list[int]:
    """The sites by count, the largest first."""
    return [site for site, _ in sorted(counts, key=lambda pair: -pair[1])]


def _hungry(evidence: Evidence) -> Iterator[list[int]]:
    return ([site] for item in evidence.optimizers for site in _sites(item.hungry))


def _wiped(evidence: Evidence) -> Iterator[list[int]]:
    return ([site] for item in evidence.optimizers for site in _sites(item.wiped))


def _without_gradients(evidence: Evidence) -> Iterator[list[int]]:
    """Calls of modules that never run with gradients, and sites that cut off a part of a loss."""
    yield from ([item.site] for item in evidence.forwards if item.owned and not item.fed)
    yield from ([cut.at] for cut in evidence.cuts)


def _retaining(evidence: Evidence) -> Iterator[list[int]]:
    return ([item.site] for item in evidence.retention if item.calls)


def _emptying(evidence: Evidence) -> Iterator[list[int]]:
    return ([item.site] for item in evidence.caches)


def _switching(evidence: Evidence) -> Iterator[list[int]]:
    return ([site] for site, steps in evidence.anomaly.on_sites if steps)


_CHOICES: Mapping[str, Callable[[Evidence], Iterator[list[int]]]] = {
    "missing-zero-grad": _stale,
    "step-without-backward": _hungry,
    "cleared-before-step": _wiped,
    "training-under-no-grad": _without_gradients,
    "retain-graph-in-loop": _retaining,
    "empty-cache-in-loop": _emptying,
    "anomaly-detection-left-on": _switching,
}
