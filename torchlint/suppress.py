"""`# torchlint: ignore[...]`, `# torchlint: ignore-file`, `# noqa` and the suppressions that do nothing."""

from __future__ import annotations

from collections.abc import Iterable

from torchlint.finding import Category, Meta
from torchlint.source import SourceFile

UNUSED_SUPPRESSION = Meta(
    "unused-suppression",
    "TL004",
    Category.PEDANTIC,
    "A suppression comment suppresses nothing.",
)
UNKNOWN_SUPPRESSION = Meta(
    "unknown-suppression",
    "TL005",
    Category.PEDANTIC,
    "A suppression comment names no known rule.",
)


class Suppressions:
    """The suppression comments of one file, and which of them were of use."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source

    def covers(self, meta: Meta, lines: Iterable[int]) -> bool:
        """Whether a finding of `meta` on a statement that spans `lines` is suppressed."""
        return False
