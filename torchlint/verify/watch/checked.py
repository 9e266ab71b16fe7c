"""The checks of a watched run, and the linter's findings on lines that ran. A run without problems reports both."""

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
"""By checks that did not run, options that show more."""
ASKED = (*RULES, "cleared-before-step", "inplace-on-saved-tensor", "inplace-on-leaf", *raised.RULES)
"""The rules that a watched run checks with or without findings of the linter."""


def checked(checks: Sequence[str], codes: Mapping[str, str]) -> str:
    """The rules and checks of the run, as a sentence."""
    own = sorted({codes.get(name, name) for name in ASKED})
    others = [name for name in checks if name not in ASKED]
    more = [text for name, text in _MORE.items() if name not in checks]
    return (
        f"Checked: {', '.join(own)}, the linter's findings that a run can judge, and {len(others):,} checks (see "
        f"`torchlint watch --list`). {'; '.join(more)[:1].upper()}{'; '.join(more)[1:]}."
    )


def beside(static: Sequence[tuple[Judged, bool]]) -> list[str]:
    """The linter's findings that the run did not confirm, each with whether its line ran."""
    open_ones = [item for item, has_run in static if has_run and item.verdict.answer is not Answer.CONFIRMED]
    if not open_ones:
        return []
    named = [
        f"{item.finding.path}:{item.finding.span.start.line} {item.finding.code} ({_said(item)})"
        for item in open_ones[:_NAMED]
    ]
    more = f" and {len(open_ones) - _NAMED:,} more" if len(open_ones) > _NAMED else ""
    return [f"The linter also reports lines that ran: {', '.join(named)}{more}."]


def _said(item: Judged) -> str:
    """The run's verdict about a finding of the linter, in words."""
    if item.verdict.answer is Answer.INCONCLUSIVE and not item.verdict.numbers:
        return "this run does not decide it"
    return f"{item.verdict.answer.value}: {item.verdict.reason}"
