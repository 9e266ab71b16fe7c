"""How often each rule found something, most first."""

from __future__ import annotations

from collections import Counter

from torchlint.outputs import Style
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """A table of count, code, name and number of files."""
    counts = Counter((finding.code, finding.name) for finding in outcome.findings)
    files = Counter(key for file in outcome.files for key in {(item.code, item.name) for item in file.findings})
    width = max((len(name) for _, name in counts), default=0)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return "".join(
        f"{count:>6}  {code}  {name:<{width}}  in {files[code, name]} file{'s' * (files[code, name] != 1)}\n"
        for (code, name), count in rows
    )
