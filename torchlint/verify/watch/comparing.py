"""A run compared with an earlier one, for CI that fails only for new problems."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchlint.verify.session import Judged, Verification

Known = frozenset[tuple[str, str]]
"""Names of checks and rules, each with the fingerprint of a line."""


class ReportError(Exception):
    """The file is not a report of `torchlint watch`; the message is for the user."""


def read(path: Path) -> Known:
    """The problems in an earlier report; raises `ReportError`."""
    try:
        report: Any = json.loads(path.read_text("utf-8"))
        return frozenset((str(item["name"]), str(item["fingerprint"])) for item in report["findings"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportError(f"{path} is not a report of `torchlint watch --format json`: {error!r}") from None


def compared(seen: Verification, known: Known) -> Verification:
    """The new problems, with a note that counts new, known and gone ones."""
    names = {_key(item) for item in seen.judged}
    counts = f"{len(names - known):,} new, {len(names & known):,} known, {len(known - names):,} gone"
    new = seen.only(lambda item: _key(item) not in known)
    return replace(new, notes=(*seen.notes, f"Compared with the earlier report: {counts}."))


def _key(item: Judged) -> tuple[str, str]:
    return item.finding.name, item.finding.fingerprint
