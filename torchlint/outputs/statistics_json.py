"""How often each rule found something, as JSON."""

from __future__ import annotations

from torchlint.outputs import Style
from torchlint.outputs.escaping import json_text
from torchlint.outputs.statistics import rows
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """An array with an object for each rule that found something, most first."""
    return json_text([row._asdict() for row in rows(outcome)])
