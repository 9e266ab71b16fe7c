"""JSON lines, for scripts that read line by line: an object of the flat JSON format on each line."""

from __future__ import annotations

from torchlint.outputs import Style
from torchlint.outputs.escaping import json_line
from torchlint.outputs.json_flat import objects
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """One object on each line, in ASCII; nothing where nothing was found."""
    return "".join(map(json_line, objects(outcome)))
