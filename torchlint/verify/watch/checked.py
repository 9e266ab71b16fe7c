"""What a watched run was asked, and what the linter says of lines that ran: nothing seen is not nothing looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchlint.verify.session import Judged
from torchlint.verify.verdict import Answer
from torchlint.verify.watch import raised
from torchlint.verify.watch.proposals import RULES

_NAMED = 10
_MORE = {
    "": "more steps (`--max-steps`) show what comes later",
    "differing-runs": "`--twice` compares two runs",
    "one-batch": "`--one-batch` tests whether the model learns one batch",
}
"""By checks that were not asked, options that show more."""
ASKED = (*RULES, "cleared-before-step", "inplace-on-saved-tensor", "inplace-on-leaf", *raised.RULES)
"""The rules that a watched run is asked about whatever the linter says."""


def checked(checks: Sequence[str], codes: Mapping[str, str]) -> str:
    """Which rules and checks there were."""
    own = sorted({codes.get(name, name) for name in ASKED})
    others = [name for name in checks if name not in ASKED]
    more = [text for name, text in _MORE.items() if name not in checks]
    return (
        f"Checked: {', '.join(own)}, findings of the linter that a run can judge, and {len(others):,} checks that "
        f"`torchlint watch --list` explains. {'; '.join(more)[:1].upper()}{'; '.join(more)[1:]}."
    )


def beside(static: Sequence[tuple[Judged, bool]]) -> list[str]:
    """Findings of the linter, each with whether its line ran, that the run did not confirm."""
    open_ones = [item for item, has_run in static if has_run and item.verdict.answer is not Answer.CONFIRMED]
    if not open_ones:
        return []
    named = [
        f"{item.finding.path}:{item.finding.span.start.line} {item.finding.code} ({_said(item)})"
        for item in open_ones[:_NAMED]
    ]
    more = f" and {len(open_ones) - _NAMED:,} more" if len(open_ones) > _NAMED else ""
    return [f"The linter also has findings on lines that ran: {', '.join(named)}{more}."]


def _said(item: Judged) -> str:
    """What the run says of a finding of the linter."""
    if item.verdict.answer is Answer.INCONCLUSIVE and not item.verdict.numbers:
        return "not decided by this run"
    return f"{item.verdict.answer.value}: {item.verdict.reason}"
