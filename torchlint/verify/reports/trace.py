"""The run in the Trace Event Format, for Perfetto and chrome://tracing. Findings are marks in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from torchlint.verify.evidence import Evidence
from torchlint.verify.session import Judged, Verification

_THREAD = 1


def render(verification: Verification) -> str:
    """JSON in ASCII; times are in microseconds from the beginning of the first span."""
    starts = [span.start for evidence in verification.evidence for span in evidence.spans]
    zero = min(starts, default=0)
    events = [event for evidence in verification.evidence for event in _of_process(evidence, zero)]
    for evidence in verification.evidence[:1]:
        events += (_mark(judged, evidence, zero) for judged in verification.judged)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _of_process(evidence: Evidence, zero: int) -> Iterator[dict[str, Any]]:
    pid, rank = evidence.process.pid, evidence.process.rank
    name = f"rank {rank}" if rank else f"process {pid}"
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    begun = min((span.start for span in evidence.spans), default=zero)
    for span in evidence.spans:
        if span.kind == "step":
            yield _event(f"step {span.step + 1}", "iteration", begun - zero, span.end - zero, pid)
            begun = span.end
        label = span.kind if span.kind == span.name else f"{span.kind}: {span.name}"
        yield _event(label, span.kind, span.start - zero, span.end - zero, pid)


def _event(name: str, category: str, start: int, end: int, pid: int) -> dict[str, Any]:
    times = {"ts": start, "dur": max(end - start, 0)}
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": _THREAD, **times}


def _mark(judged: Judged, evidence: Evidence, zero: int) -> dict[str, Any]:
    """A finding at the end of the step that first showed it; at the beginning if no step is known."""
    first = judged.verdict.first_step
    ends = [span.end - zero for span in evidence.spans if span.kind == "step" and span.step == first]
    finding = judged.finding
    return {
        "ph": "i",
        "s": "p",
        "name": finding.name,
        "cat": "finding",
        "pid": evidence.process.pid,
        "tid": _THREAD,
        "ts": ends[0] if ends else 0,
        "args": {"line": f"{finding.path}:{judged.line}", "reason": judged.verdict.reason},
    }
