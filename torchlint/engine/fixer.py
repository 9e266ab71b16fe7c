"""Fixes of one file: those that do not overlap are made, and the file is linted again, until nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from torchlint.engine.examination import Examination, examine
from torchlint.engine.fix_check import with_valid_fixes
from torchlint.engine.registry import INTERNAL_ERROR, SYNTAX_ERROR, Selection
from torchlint.files.first_party import Search
from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Finding, Safety, Span
from torchlint.syntax.gc_pause import collect_after

MAX_ROUNDS = 50
"""A file that is still not stable has a fix that undoes or repeats another."""


Wanted = Callable[[SourceFile, Sequence[Finding]], Collection[Finding]]
"""A function from all findings of one version of a file to those to fix."""


@dataclass(frozen=True)
class Fixing:
    """Which fixes are to be made: the safe ones, or all."""

    unsafe: bool = False


@dataclass(frozen=True)
class Fixed:
    """The result of fixing a file: the new version, the findings left, the findings at first, and the fixed ones."""

    source: SourceFile
    findings: tuple[Finding, ...]
    before: tuple[Finding, ...]
    applied: tuple[Finding, ...]
    uses_torch: bool
    searches: tuple[Search, ...] = ()
    """They know which modules were looked for, in each of the forms."""
    notices: tuple[Finding, ...] = ()
    notices_before: tuple[Finding, ...] = ()


def is_applicable(finding: Finding, unsafe: bool) -> bool:
    """Whether a finding has a fix that may be made."""
    return finding.fix is not None and (unsafe or finding.fix.safety is Safety.SAFE)


def fix(source: SourceFile, selection: Selection, *, unsafe: bool = False, wanted: Wanted | None = None) -> Fixed:
    """Make the safe fixes of a file, or all of them, until it is stable. Never raises.

    With `wanted` only what that chooses is fixed; it is asked about each form of the file.
    A fix that does not work (its result does not parse, or its finding is still there) is not made, and is an
    internal error beside the findings.
    """
    return _Fixing(selection, unsafe, wanted).run(source)


@dataclass
class _Fixing:
    selection: Selection
    unsafe: bool
    wanted: Wanted | None = None
    applied: list[Finding] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    refused: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    """The fixes that failed, by key, each with its internal error."""

    def run(self, source: SourceFile) -> Fixed:
        original, first = source, self._examine(source)
        findings = first.findings
        for _ in range(MAX_ROUNDS):
            chosen = self._chosen(source, findings)
            if not chosen:
                break
            fixed, left = self._round(source, findings, chosen)
            if fixed is source:
                continue  # something was refused, so that other fixes are chosen now
            source, findings = fixed, left
        else:
            if chosen := self._chosen(source, findings):
                self._refuse(source, chosen[0], f"is not stable after {MAX_ROUNDS} rounds")
        left, before = with_valid_fixes(source, findings), with_valid_fixes(original, first.findings)
        every = (*left, *self.refused.values())
        is_changed = first.notices and source is not original
        notices = self._examine(source).notices if is_changed else first.notices
        return Fixed(
            source,
            every,
            tuple(before),
            tuple(self.applied),
            first.tally.uses_torch,
            tuple(self.searches),
            notices,
            first.notices,
        )

    def _examine(self, source: SourceFile) -> Examination:
        found = examine(source, self.selection, checked=False)
        collect_after(len(source.data))
        if found.search is not None:
            self.searches.append(found.search)
        return found

    def _chosen(self, source: SourceFile, findings: Sequence[Finding]) -> list[Finding]:
        """Findings whose fixes can be made together, by place; equal fixes are one."""
        able = [
            item
            for item in (findings if self.wanted is None else self.wanted(source, findings))
            if is_applicable(item, self.unsafe) and self._key(source, item) not in self.refused
        ]
        chosen: list[Finding] = []
        for finding in sorted(able, key=lambda finding: _region(finding)):
            if not chosen or finding.fix == chosen[-1].fix or not _overlap(finding, chosen[-1]):
                chosen.append(finding)
        return chosen

    def _round(
        self, source: SourceFile, findings: Sequence[Finding], chosen: list[Finding]
    ) -> tuple[SourceFile, list[Finding]]:
        """The file after a round, or the same if its fixes do not work; then those at fault are refused."""
        problem, fixed, left = self._tried(source, findings, chosen)
        if not problem:
            self.applied += chosen
            return fixed, left
        if len({finding.fix for finding in chosen}) == 1:
            self._refuse(source, chosen[0], problem)
            return source, list(findings)
        for half in (chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]):
            fixed, left = self._round(source, findings, half)
            if fixed is not source:
                return fixed, left
        return source, list(findings)

    def _tried(
        self, source: SourceFile, findings: Sequence[Finding], chosen: list[Finding]
    ) -> tuple[str, SourceFile, list[Finding]]:
        """The problem of a set of fixes (empty if none), the resulting file, and its findings."""
        edits = [edit for fix in dict.fromkeys(finding.fix for finding in chosen) if fix for edit in fix.edits]
        try:
            fixed = source.edited(edits)
        except SourceError as error:
            return f"cannot be written: {error.message}", source, []
        left = self._examine(fixed).findings
        if _breaks(fixed, findings, left):
            return "gives code that is not valid Python", source, []
        before, tried = (Counter(self._key(source, item) for item in found) for found in (findings, chosen))
        after = Counter(self._key(fixed, item) for item in left)
        if any(after[key] > before[key] - tried[key] for key in tried):
            return "does not remove the finding", source, []
        return "", fixed, left

    def _key(self, source: SourceFile, finding: Finding) -> tuple[str, str, str]:
        """The identity of a finding while others are fixed."""
        return finding.name, finding.message, source.line(finding.span.start.line).strip()

    def _refuse(self, source: SourceFile, finding: Finding, problem: str) -> None:
        error = INTERNAL_ERROR
        message = f"the fix of {finding.name} {problem}, and was not made: a bug in torchlint, please report it"
        self.refused[self._key(source, finding)] = replace(
            finding, name=error.name, code=error.code, message=message, severity=error.category.severity, fix=None
        )


def _breaks(fixed: SourceFile, before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Whether a file is no Python any more: known from the findings, if it was parsed for them."""
    was, now = (sum(item.name == SYNTAX_ERROR.name for item in found) for found in (before, after))
    if now > was:
        return True
    from torchlint.syntax.reading import is_python

    return not was and not is_python(fixed)


def _region(finding: Finding) -> Span:
    assert finding.fix is not None
    return finding.fix.region


def _overlap(first: Finding, second: Finding) -> bool:
    """Whether two fixes touch each other's text, or insert at one place."""
    one, two = _region(first), _region(second)
    return one.start <= two.end and two.start <= one.end
