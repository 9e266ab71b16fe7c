"""Notices on standard error: remarks on files that are not findings."""

from __future__ import annotations

from collections.abc import Iterable

from torchlint.cli.options import say
from torchlint.results import LintedFile

_MOST = 20
"""More of them would hide the rest of the output."""


def show_notices(files: Iterable[LintedFile]) -> None:
    """Print `notice: path:line:column: message` for the first notices, and the number of the others."""
    notices = [(file.source, notice) for file in files for notice in file.notices]
    if not notices:
        return
    from torchlint.outputs.places import shown_place

    for source, notice in notices[:_MOST]:
        say(f"notice: {shown_place(source, notice.span.start)}: {notice.message}")
    if len(notices) > _MOST:
        say(f"notice: {len(notices) - _MOST:,} more are not shown")
