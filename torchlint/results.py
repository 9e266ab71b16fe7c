"""Results: what linting a file gave, and what a run over many gave."""

from __future__ import annotations

from dataclasses import dataclass

from torchlint.files.source import SourceFile
from torchlint.files.sources import Module
from torchlint.finding import Finding, Meta


@dataclass(frozen=True)
class LintedFile:
    """One file, as it was when it was linted, and what was found in it."""

    source: SourceFile
    findings: tuple[Finding, ...]
    before: LintedFile | None = None
    """The file on disk and what was found in it, if `source` is what fixes made of that."""
    applied: tuple[Finding, ...] = ()
    """What the fixes were for."""
    looked_into: bool = True
    """Whether it was parsed, since a rule might have found something."""
    imports: tuple[Module, ...] = ()
    """The modules of the repository that were looked for, there or not, if that is of interest."""
    notices: tuple[Finding, ...] = ()
    """Remarks on how the file can be linted, such as comments without effect: no findings, and no reason to fail."""


@dataclass(frozen=True)
class Outcome:
    """What a run found: the files with findings in path order, and of how many files in all."""

    files: tuple[LintedFile, ...]
    total: int
    rules: tuple[Meta, ...] = ()
    """What could have been found, by code."""
    looked_into: int | None = None
    """How many of all files were looked into, if that is known."""
    new_only: bool = False
    """Whether others were found that do not count: a baseline holds them, or no change has made them."""
    unwritten: tuple[str, ...] = ()
    """The files that should have been written, and could not."""
    noticed: tuple[LintedFile, ...] = ()
    """The files with notices, be there findings in them or not."""

    @property
    def findings(self) -> list[Finding]:
        return [finding for file in self.files for finding in file.findings]
