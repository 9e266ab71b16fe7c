"""One watched run: it takes a command and returns problems at source lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Confidence, Finding
from torchlint.verify.claims import Claim, claim
from torchlint.verify.evidence import Evidence, Sighting
from torchlint.verify.folder import Conditions, Folder, Limits, Watched
from torchlint.verify.launch import Ended, Launcher, launch
from torchlint.verify.session import NOTHING_CONFIRMED, Judged, Verification, conclude
from torchlint.verify.verdict import CHECKS, NO_JUDGE, VERIFIABLE, Answer, Verdict, inconclusive, sighted, verdict
from torchlint.verify.watch import catalogue, one_batch, proposals, ranks, twice
from torchlint.verify.watch.branches import branches_of
from torchlint.verify.watch.candidates import candidates, finding_at, is_switch
from torchlint.verify.watch.causes import Blame, with_causes, without_consequences
from torchlint.verify.watch.checked import beside, checked
from torchlint.verify.watch.raised import ignored, raised

_SEED = 0
_FINDINGS = 200
"""The maximum number of linter findings that a run examines."""
_NO_CLAIM = -1
"""The number of a claim that was not in the probe's plan."""


@dataclass(frozen=True)
class Static:
    """Static facts: the project's files, the linter's findings in them, and codes by names."""

    sources: Sequence[SourceFile]
    findings: Sequence[Finding]
    codes: Mapping[str, str]
    previews: frozenset[str] = frozenset()
    """Names of preview rules: their findings are only reported if the run confirms them."""


def watch(
    command: Sequence[str],
    static: Static,
    root: Path,
    limits: Limits,
    checks: Sequence[str],
    announce: Callable[[str], None] = lambda text: None,
    launcher: Launcher = launch,
    *,
    is_traced: bool = False,
) -> Verification:
    """Run the program, twice if a check compares two runs, and report its problems; raises `LaunchError`."""
    run = _Run(static, checks)
    conditions = Conditions(_SEED) if twice.NAME in checks else None
    watched = Watched(proposals.RULES, [*checks, *run.only_asked], is_traced)
    first = _once(command, run, root, limits, watched, announce, launcher, conditions)
    again = None
    if conditions is not None and not (first.ended and first.ended.signal):
        compared = Watched(proposals.RULES, [twice.NAME])
        reordered = replace(conditions, order=1)
        again = _once(command, run, root, limits, compared, announce, launcher, reordered)
    judged = run.judged(first.evidence, None if again is None else twice.parting(first.evidence, again.evidence))
    seen = conclude(
        tuple(command),
        judged,
        first.ended,
        first.evidence,
        first.refused,
        first.booted,
        limits,
        has_findings=False,
    )
    notes = [*one_batch.notes(seen, checks), *_of_two_runs(first, again, judged)]
    if seen.exit_code == NOTHING_CONFIRMED:
        notes.append(checked(checks, static.codes))
    notes += beside(run.linted(first.evidence, judged))
    return replace(seen, title="torchlint watch", notes=(*seen.notes, *notes))


@dataclass(frozen=True)
class _Once:
    """The results of one run."""

    ended: Ended
    evidence: Sequence[Evidence]
    refused: Sequence[str]
    booted: bool


def _once(
    command: Sequence[str],
    run: _Run,
    root: Path,
    limits: Limits,
    watched: Watched,
    announce: Callable[[str], None],
    launcher: Launcher,
    conditions: Conditions | None,
) -> _Once:
    folder = Folder()
    try:
        folder.write_plan(run.claims, root, limits, conditions, watched)
        announce(f"writing evidence to {folder.path}; torchlint deletes it after the report")
        ended = launcher(command, folder, limits, {} if conditions is None else conditions.variables(os.environ))
        evidence, refused = folder.evidence()
        return _Once(ended, evidence, refused, bool(folder.booted()))
    finally:
        folder.remove()


def _of_two_runs(first: _Once, again: _Once | None, judged: Sequence[Judged]) -> list[str]:
    """A note about how far two runs were equal, if they were not observed to differ."""
    if again is None or any(item.finding.name == twice.NAME for item in judged):
        return []
    calls = min((len(run.evidence[0].calls) if run.evidence else 0 for run in (first, again)), default=0)
    return [f"Both runs computed the same in all {calls:,} operator calls that were compared."]


class _Run:
    """The examined lines, and the run's verdicts about them."""

    def __init__(self, static: Static, checks: Sequence[str]) -> None:
        self._static = static
        asked = {CHECKS[finding.name] for finding in static.findings[:_FINDINGS] if finding.name in CHECKS}
        self.only_asked = [check.name for check in catalogue.checks() if check.name in asked - {*checks}]
        """Checks that run because they judge findings of the linter, and report nothing else."""
        self._sources = {os.path.realpath(source.path): source for source in static.sources if _is_text(source)}
        self.claims: list[Claim] = []
        for path, source in self._sources.items():
            self.claims += self._claims(path, source)
        self._linted = dict(self._of_linter())
        """The claims of the linter's findings, by their numbers, with the findings."""
        self.claims += [item for item, _ in self._linted.values()]

    def _claims(self, path: str, source: SourceFile) -> Iterator[Claim]:
        first = len(self.claims)
        try:
            for number, finding in enumerate(candidates(source), first):
                yield claim(number, finding, path, source.code)
        except (SyntaxError, ValueError, RecursionError):
            return  # a file that is not Python does not run

    def _of_linter(self) -> Iterator[tuple[int, tuple[Claim, Finding]]]:
        """The claim that `verify` would examine: a watched run gives the same verdict."""
        number = len(self.claims)
        for finding in self._static.findings[:_FINDINGS]:
            path = os.path.realpath(finding.path)
            if path not in self._sources:
                continue
            try:
                yield number, (claim(number, finding, path, self._sources[path].code), finding)
            except (SyntaxError, ValueError, RecursionError):
                continue
            number += 1

    def linted(self, processes: Sequence[Evidence], judged: Sequence[Judged]) -> list[tuple[Judged, bool]]:
        """The linter's findings that the report does not name, with the run's verdict and whether the line ran."""
        named = {(os.path.realpath(item.finding.path), item.finding.span.start.line) for item in judged}
        ran = _reached(processes)
        return [
            (Judged(finding, self._sources[item.file], self._said(item, processes)), number in ran)
            for number, (item, finding) in self._linted.items()
            if (item.file, finding.span.start.line) not in named and not self._is_preview(finding)
        ]

    def _ran(self, processes: Sequence[Evidence]) -> list[Claim]:
        """The linter's findings whose lines ran."""
        ran = _reached(processes)
        return [item for number, (item, _) in self._linted.items() if number in ran]

    def _is_preview(self, finding: Finding) -> bool:
        """Whether the linter itself would not report it by default."""
        return finding.name in self._static.previews or finding.confidence is Confidence.LOW

    def _said(self, item: Claim, processes: Sequence[Evidence]) -> Verdict:
        """The verdict of all processes about a finding of the linter."""
        if item.rule not in VERIFIABLE:
            return inconclusive(NO_JUDGE, advice="")
        return verdict(item, processes)

    def judged(
        self, processes: Sequence[Evidence], parted: tuple[Evidence, Sighting] | None = None
    ) -> tuple[Judged, ...]:
        """The problems by file and line; `parted` is where two runs differ that should be equal."""
        processes = ranks.with_acquittals(processes)
        blames = [
            *(self._asked(processes)),
            *(blame for evidence in processes for blame in (*self._proposed(evidence), *self._seen(evidence))),
        ]
        for evidence, sighting in (
            *ranks.parted(processes),
            *ranks.alike(processes),
            *ranks.unmatched(processes, branches_of(self._read)),
            *([] if parted is None else [parted]),
        ):
            blames += self._seen(replace(evidence, sightings=[sighting]))
        found: dict[tuple[str, int, str], Blame] = {}
        for blame in without_consequences(with_causes(blames, self._ran(processes))):
            found.setdefault((blame.claim.file, blame.claim.statement[0], blame.claim.rule), blame)
        return one_batch.suspected(tuple(self._judge(found[place]) for place in sorted(found)))

    def _asked(self, processes: Sequence[Evidence]) -> Iterator[Blame]:
        """Lines that were watched."""
        trained = [_trained_elsewhere(evidence) for evidence in processes]
        for item, finding in self._linted.values():
            said = self._said(item, processes)
            if item.rule in CHECKS and CHECKS[item.rule] not in self.only_asked:
                continue  # the check reports it itself
            if said.answer is Answer.CONFIRMED and finding.confidence is not Confidence.LOW:
                yield Blame(item, said, processes)
        for item in self.claims[: len(self.claims) - len(self._linted)]:
            lasts = is_switch(self._sources[item.file], item.statement[0])
            said = verdict(item, processes if lasts else trained)
            if said.answer is Answer.CONFIRMED:
                yield Blame(item, said, processes)

    def _proposed(self, evidence: Evidence) -> Iterator[Blame]:
        """Lines that the evidence points at, so they have run."""
        seen = replace(_trained_elsewhere(evidence), reached=[*evidence.reached, _NO_CLAIM])
        for rule, sites in proposals.proposals(seen):
            for site in sites:
                item = self._at(rule, evidence, site)
                said = None if item is None else verdict(item, [seen])
                if item is not None and said is not None and said.answer is Answer.CONFIRMED:
                    yield Blame(item, said, [evidence], site)
                    break

    def _seen(self, evidence: Evidence) -> Iterator[Blame]:
        """Lines that a check has named, or at which a backward raised."""
        for rule, site, said in (*raised(evidence), *ignored(evidence)):
            item = self._at(rule, evidence, site)
            if item is not None:
                yield Blame(item, said, [evidence])
        for sighting in evidence.sightings:
            if sighting.check in self.only_asked:
                continue
            item = self._at(sighting.check, evidence, sighting.site)
            if item is not None:
                yield Blame(item, sighted(sighting, evidence), [evidence])

    def _at(self, rule: str, evidence: Evidence, site: int) -> Claim | None:
        """A claim about the line of a site; None if there is no line, or its text is not known."""
        place = proposals.innermost(evidence, site)
        source = None if place is None else self._sources.get(place[0])
        if place is None or source is None:
            return None
        return claim(_NO_CLAIM, finding_at(source, rule, place[1]), place[0], source.code)

    def _read(self, path: str) -> bytes | None:
        source = self._sources.get(path)
        return None if source is None else source.code

    def _judge(self, blame: Blame) -> Judged:
        item = blame.claim
        source = self._sources[item.file]
        code = self._static.codes.get(item.rule, "")
        finding = finding_at(source, item.rule, item.statement[0], code, blame.verdict.reason)
        return Judged(finding, source, blame.verdict, beside=self._beside(item))

    def _beside(self, item: Claim) -> Finding | None:
        """The linter's finding about the same line."""
        first, last = item.statement
        alike = (finding for finding in self._static.findings if finding.name == item.rule)
        near = (finding for finding in alike if first <= finding.span.start.line <= last)
        return next((finding for finding in near if os.path.realpath(finding.path) == item.file), None)


def _reached(processes: Sequence[Evidence]) -> set[int]:
    """The numbers of the claims whose lines ran."""
    return {index for evidence in processes for index in evidence.reached}


def _is_text(source: SourceFile) -> bool:
    """Whether a file has lines: a file that cannot be decoded does not run."""
    try:
        return bool(source.lines)
    except SourceError:
        return False


def _trained_elsewhere(evidence: Evidence) -> Evidence:
    """The evidence without modules that also run with gradients: if those get none, the reason is another one."""
    return replace(evidence, forwards=[item for item in evidence.forwards if not item.with_gradients])
