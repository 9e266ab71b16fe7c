"""The probe's observations as JSON values: the format that `torchlint/verify/evidence.py` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlint_probe.clearings import Clearing
from torchlint_probe.forwards import Forwards
from torchlint_probe.inplace import Change
from torchlint_probe.keeping import Keep
from torchlint_probe.ledger import Ledger

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

FORMAT = 1


def evidence(probe: Probe) -> dict[str, Any]:
    """Everything, with counts by site; a site is a number in `stacks`."""
    probe.standstill.look()
    probe.meter.settle(probe.finished)
    probe.losses.settle(probe.finished)
    ledgers = [ledger for ledger in probe.ledgers.all if ledger.slots]
    sightings, acquittals = probe.checks.sightings(), probe.checks.acquittals()  # first: they may name further lines
    return {
        "format": FORMAT,
        "process": probe.environment(),
        "status": "finished" if probe.finished else "running",
        "stopped": probe.budget.reason,
        "error": probe.error,
        "compiling": [list(line) for line in probe.compiling],
        "trouble": probe.trouble,
        "seconds": probe.budget.seconds,
        "steps": probe.steps,
        "files": list(probe.sites.files),
        "stacks": [list(map(list, stack)) for stack in list(probe.sites.stacks)],
        "backwards": [
            {
                "site": site,
                "count": seen.count,
                "retained": seen.retained,
                "errors": dict(seen.errors),
                "first_error": seen.first_error,
            }
            for site, seen in list(probe.backwards.items())
        ],
        "optimizers": [_optimizer(ledger) for ledger in ledgers],
        "forwards": _forwards(probe.forwards),
        "cuts": [
            {"at": at, "sources": sources, "results": results, "site": site, "count": count}
            for (at, sources, results, site), count in list(probe.cuts.met.items())
        ],
        "retention": [
            {
                "site": site,
                "calls": seen.calls,
                "reused": seen.reused,
                "sizes": seen.sizes[-200:],
                "judged": seen.judged,
            }
            for site, seen in list(probe.retention.sites.items())
        ],
        "caches": [
            {"site": site, "calls": seen.calls, "seconds": seen.seconds, "released": seen.released}
            for site, seen in list(probe.caches.sites.items())
        ],
        "anomaly": {
            "on_sites": [[site, steps] for site, steps in list(probe.anomaly.sites.items())],
            "off_sites": list(probe.anomaly.off_sites),
            "library_sites": list(probe.anomaly.library_sites),
            "steps_on": probe.anomaly.steps_on,
            "steps_off": probe.anomaly.steps_off,
            "on_ms": probe.anomaly.on[-_TIMES:],
            "off_ms": probe.anomaly.off[-_TIMES:],
        },
        "reads": [
            {"claim": index, "name": name, "fed": slot.had_gradient}
            for index, read in probe.reads.items()
            for name, slot in list(read.slots.items())
        ],
        "reached": [index for index, reach in probe.reach.items() if reach.reached],
        "unwatched": probe.lines.why_not,
        "keeps": [
            _keep(keep, keeps.emptied.reached) for keeps in probe.keeps for keep in list(keeps.by_thread.values())
        ],
        "clearings": [_clearing(clearing, ledgers) for clearing in probe.clearings],
        "changes": [_change(change) for change in probe.changes],
        "sightings": sightings,
        "acquittals": acquittals,
        "calls": probe.checks.calls if probe.finished else [],
        "replicas": probe.checks.replicas,
        "batches": probe.checks.batches,
        "members": probe.checks.members,
        "spans": list(probe.spans.all),
        "observed": [observer.evidence for observer in probe.observers],
        "error_site": probe.error_site,
        "raised": [
            *(_raised(site, text, count, False) for (site, text), count in list(probe.raised.items())),
            *(_raised(site, text, count, True) for site, (count, text) in list(probe.raised_later.items())),
        ],
        "idle": probe.standstill.idle,
        "standing": [{"thread": name, "site": site} for name, site in probe.standstill.threads],
        "stride": probe.timeline.stride,
        "series": [_finite(record) for record in list(probe.timeline.records)],
    }


_TIMES = 10
_NAMES = 4


def _optimizer(ledger: Ledger) -> dict[str, Any]:
    trainable = [slot for slot in ledger.slots if slot.trainable]
    return {
        "name": ledger.name,
        "parameters": len(ledger.slots),
        "trainable": len(trainable),
        "without_gradient": sum(not slot.had_gradient for slot in trainable),
        "contested": ledger.contested,
        "made": ledger.made,
        "steps": _pairs(ledger.steps),
        "evaluations": _pairs(ledger.evaluations),
        "stale": _pairs(ledger.stale),
        "wiped": _pairs(ledger.wiped),
        "hungry": _pairs(ledger.hungry),
        "leftover": _pairs(ledger.leftover),
        "added": _pairs(ledger.added),
        "added_stale": _pairs(ledger.added_stale),
        "first_stale": -1 if ledger.first_stale is None else ledger.first_stale,
        "summed": ledger.summed,
        "clears": ledger.clears,
        "lost": ledger.lost,
        "moved": ledger.movement.moved,
        "still": ledger.movement.still,
        "unmoved": ledger.movement.unmoved,
        "ratios": [ratio for ratio in ledger.norms.ratios[:200] if ratio == ratio and ratio != float("inf")],
    }


def _pairs(counter: dict[int, int]) -> list[list[int]]:
    return [[site, count] for site, count in list(counter.items())]


def _forwards(forwards: Forwards) -> list[dict[str, Any]]:
    """Each module that ran without gradients: of its trainable parameters, what an optimizer has and what it got."""
    return [
        {
            "module": forwards.names[number],
            "site": site,
            "calls": calls,
            "trainable": forwards.trainable[number],
            "owned": len(forwards.slots[number]),
            "unfed": [name for name, slot in forwards.slots[number].items() if not slot.had_gradient][:_NAMES],
            "fed": sum(slot.had_gradient for slot in forwards.slots[number].values()),
            "with_gradients": forwards.also_with[number],
        }
        for (number, site), calls in list(forwards.calls.items())
    ]


def _keep(keep: Keep, emptied: bool) -> dict[str, Any]:
    visits = len(keep.steps)  # the program may go on while this is written
    return {
        "claim": keep.claim.index,
        "visits": visits,
        "backwards": keep.backwards[:visits],
        "steps": keep.steps[:visits],
        "lives": [list(life) for life in list(keep.lives)],
        "tensors": keep.tensors,
        "clean": keep.clean,
        "graphs": keep.graphs,
        "container": keep.container,
        "emptied": emptied,
        "shown": keep.claim.shown,
        "bound": -1 if keep.bound is None else keep.bound,
        "holder": keep.holder,
        "weights": list(keep.weights),
        "chained": keep.chained,
    }


def _clearing(clearing: Clearing, ledgers: list[Ledger]) -> dict[str, Any]:
    return {
        "claim": clearing.claim.index,
        "visits": clearing.visits,
        "optimizers": [
            [place, clearing.clearings[ledger]] for place, ledger in enumerate(ledgers) if ledger in clearing.clearings
        ],
        "robbed": clearing.robbed,
        "parameters": clearing.parameters,
        "starved": clearing.starved,
        "discards": list(clearing.discards),
        "first": -1 if clearing.first is None else clearing.first,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "claim": change.claim.index,
        "hits": change.hits,
        "bumps": change.bumps,
        "tracked": change.tracked,
        "passed": change.passed,
        "share": change.share,
        "leaves": change.leaves,
        "silent": dict(change.silent),
        "untried": change.untried,
        "errors": dict(change.errors),
        "matched": dict(change.matched),
        "first_error": -1 if change.first_error is None else change.first_error,
        "backwards_after": change.backwards_after,
    }


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN, so NaN values are left out."""
    return {
        key: value for key, value in record.items() if value == value and value not in (float("inf"), -float("inf"))
    }


def _raised(site: int, text: str, count: int, is_late: bool) -> dict[str, Any]:
    return {"site": site, "error": text, "count": count, "is_late": is_late}
