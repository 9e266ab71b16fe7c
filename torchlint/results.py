"""Results: what linting a file gave, and what a run over many gave."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from torchlint.files.source import SourceFile
from torchlint.files.sources import Module
from torchlint.finding import Finding, Meta


class Tally(NamedTuple):
    """A file's share of the figures in the summary of a run."""

    uses_torch: bool = False
    unstable: int = 0
    """Findings of low confidence, which only --preview reports."""


NO_TALLY = Tally()


@dataclass(frozen=True)
class LintedFile:
    """One file, as it was when it was linted, and what was found in it."""

    source: SourceFile
    findings: tuple[Finding, ...]
    before: LintedFile | None = None
    """The file on disk and what was found in it, if `source` is what fixes made of that."""
    applied: tuple[Finding, ...] = ()
    """The findings that were fixed."""
    tally: Tally = NO_TALLY
    imports: tuple[Module, ...] = ()
    """The modules of the repository that were looked for, there or not, if that is of interest."""
    notices: tuple[Finding, ...] = ()
    """Remarks on how the file can be linted, such as comments without effect: no findings, and no reason to fail."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run: the files with findings in path order, and the number of all files."""

    files: tuple[LintedFile, ...]
    total: int
    rules: tuple[Meta, ...] = ()
    """The rules that ran, by code."""
    users: int | None = None
    """How many of all files use PyTorch; None if that is unknown."""
    unstable: int = 0
    """Findings of low confidence, which only --preview reports."""
    new_only: bool = False
    """Whether others were found that do not count: a baseline holds them, or no change has made them."""
    unwritten: tuple[str, ...] = ()
    """The files that should have been written, and could not."""
    noticed: tuple[LintedFile, ...] = ()
    """The files with notices, be there findings in them or not."""

    @property
    def findings(self) -> list[Finding]:
        return [finding for file in self.files for finding in file.findings]

    def parted(self) -> tuple[tuple[LintedFile, ...], tuple[LintedFile, ...]]:
        """The files with their findings, first without those of rules about maintenance, then with those only."""
        maintenance = {meta.name for meta in self.rules if meta.is_maintenance}
        return tuple(self._kept(maintenance, False)), tuple(self._kept(maintenance, True))

    def _kept(self, names: Set[str], is_named: bool) -> Iterator[LintedFile]:
        """The files with findings whose rule is among `names`, or is not."""
        for file in self.files:
            if found := tuple(finding for finding in file.findings if (finding.name in names) is is_named):
                yield replace(file, findings=found)
