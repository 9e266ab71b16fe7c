"""The report as a JSON object; `docs/verify-report.schema.json` describes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from torchlint.verify.comparison import Comparison, busiest, points
from torchlint.verify.evidence import Evidence
from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import Answer


def render(verification: Verification, colour: bool) -> str:
    """Indented JSON in ASCII."""
    return json.dumps(report(verification), indent=2) + "\n"


def report(verification: Verification) -> dict[str, Any]:
    """The report as JSON values. The HTML page embeds it too."""
    ended = verification.ended
    return {
        "torchlint": version("torchlint"),
        "command": list(verification.command),
        "program": None
        if ended is None
        else {
            "exit_code": None if ended.was_ended else ended.code,
            "ended": ended.description,
            "seconds": round(ended.seconds, 3),
            "steps": verification.steps,
        },
        "processes": [_process(evidence) for evidence in verification.evidence],
        "notes": list(verification.notes),
        "counts": {answer.value: verification.count(answer) for answer in Answer},
        "exit_code": verification.exit_code,
        "comparison": None if verification.comparison is None else _comparison(verification.comparison),
        "findings": [_finding(judged) for judged in verification.judged],
    }


def _process(evidence: Evidence) -> dict[str, Any]:
    process = evidence.process
    return {
        "pid": process.pid,
        "rank": process.rank,
        "python": process.python,
        "torch": process.torch,
        "device": process.device,
        "steps": evidence.steps,
        "optimizers": [{"name": item.name, "steps": item.made} for item in evidence.optimizers if item.name],
        "stopped": evidence.stopped,
        "error": evidence.error,
    }


def _finding(judged: Judged) -> dict[str, Any]:
    finding, verdict, place = judged.finding, judged.verdict, judged.place
    return {
        "path": finding.path,
        "cell": place.cell,
        "line": place.line,
        "column": finding.span.start.column + 1,
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "fingerprint": finding.fingerprint,
        "verdict": verdict.answer.value,
        "reason": verdict.reason,
        "evidence": dict(verdict.numbers),
        "first_step": None if verdict.first_step is None else verdict.first_step + 1,
        "device": verdict.device,
        "advice": verdict.advice,
        "fix": _fix(judged),
        "linter": "" if judged.beside is None else judged.beside.message,
    }


def _fix(judged: Judged) -> dict[str, Any] | None:
    if judged.proof is None:
        return None
    fix = judged.finding.fix
    return {
        "outcome": judged.proof.outcome.value,
        "reason": judged.proof.reason,
        "message": fix.message if fix is not None else "",
        "safety": fix.safety.value if fix is not None else "",
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    ended = comparison.ended
    return {
        "order": list(comparison.order),
        "seed": comparison.seed,
        "fixed_program": {
            "exit_code": None if ended.was_ended else ended.code,
            "ended": ended.description,
            "seconds": round(ended.seconds, 3),
        },
        "quantities": [
            {
                "name": item.name,
                "unit": item.unit,
                "before": item.before,
                "after": item.after,
                "noise_before": item.noise_before,
                "noise_after": item.noise_after,
            }
            for item in comparison.quantities
        ],
        "losses": {"before": _losses(comparison.before), "after": _losses(comparison.after)},
    }


def _losses(processes: Sequence[Evidence]) -> list[list[float]]:
    process = busiest(processes)
    return [] if process is None else [[step, loss] for step, loss in points(process, "loss")]
