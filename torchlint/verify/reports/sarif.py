"""SARIF 2.1.0: confirmed findings come first and rank highest, refuted ones are suppressed with the reason."""

from __future__ import annotations

import json
from typing import Any

from torchlint.outputs.sarif import CRASH, log
from torchlint.results import LintedFile, Outcome
from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import Answer

_RANKS = {Answer.CONFIRMED: 100.0, Answer.INCONCLUSIVE: 50.0, Answer.NOT_REACHED: 30.0, Answer.REFUTED: 0.0}


def render(verification: Verification, colour: bool) -> str:
    """Indented JSON in ASCII with one run."""
    from torchlint.engine import registry
    from torchlint.verify.watch.catalogue import checks

    results = [item for item in verification.judged if item.finding.name != CRASH]  # reported as a notification instead
    judged = sorted(results, key=lambda item: -_RANKS[item.verdict.answer])
    files = tuple(LintedFile(item.source, (item.finding,)) for item in judged)
    codes = {item.finding.code for item in judged}
    rules = registry.metas()
    described = {meta.code for meta in rules}
    own = tuple(info.meta for info in checks() if info.code in codes - described)
    document = log(Outcome(files, len(files), (*rules, *own)))
    run = document["runs"][0]
    for result, item in zip(run["results"], judged, strict=True):
        _judge(result, item)
    run["invocations"][0]["exitCode"] = verification.exit_code
    return json.dumps(document, indent=2) + "\n"


def _judge(result: dict[str, Any], judged: Judged) -> None:
    verdict = judged.verdict
    result["rank"] = _RANKS[verdict.answer]
    result["message"]["text"] = f"{verdict.answer.value}: {verdict.reason}\n{result['message']['text']}"
    result["properties"] = {
        "verdict": verdict.answer.value,
        "reason": verdict.reason,
        "evidence": dict(verdict.numbers),
        "firstStep": verdict.first_step,
        "device": verdict.device,
    }
    if judged.proof is not None:
        result["properties"]["fix"] = {"outcome": judged.proof.outcome.value, "reason": judged.proof.reason}
    if verdict.answer is Answer.REFUTED:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": f"refuted by a run: {verdict.reason}"}
        ]
