"""The findings of `torchlint watch` in programs with known verdicts, without given findings, and its false alarms.

Run it as `python tests/benchmarks/watch_recall.py`, or with folders or files of programs of one's own; markers are
those of `tests/verify/programs`: `# verify: RULE TRUTH`. A true bug is found at its line, named at another line of the
same defect (by the same rule, where no marker of another stands), seen under another name at its line, or missed.
Whatever is reported at a line that is right, or in a program without a true bug, is an accusation; what is reported
elsewhere is listed to be read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.verify.nursery import Nursery
from tests.verify.test_programs import MARKER, PROGRAMS
from torchlint.files.source import SourceFile
from torchlint.verify.folder import Limits
from torchlint.verify.session import Verification
from torchlint.verify.watch import one_batch, twice
from torchlint.verify.watch.catalogue import checks
from torchlint.verify.watch.session import Static, watch

MODES = {one_batch.NAME, twice.NAME}
"""Checks that run a program in another way."""
KINDS = ("at the line", "at another line", "under another name", "missed")


@dataclass(frozen=True)
class Marked:
    """The known verdict about a line: the rule, and whether the line breaks it."""

    line: int
    rule: str
    truth: str
    is_cause: bool
    """Whether the linter names another line of the same defect, which has a marker too."""


@dataclass(frozen=True)
class Report:
    """A report about a line."""

    line: int
    rule: str
    reason: str


@dataclass(frozen=True)
class Watched:
    """A program that was watched."""

    path: Path
    markers: Sequence[Marked]
    reports: Sequence[Report]
    ended: str
    trouble: Sequence[str]

    def kind(self, bug: Marked) -> str:
        """How a true bug was found."""
        if any((report.line, report.rule) == (bug.line, bug.rule) for report in self.reports):
            return KINDS[0]
        if any(report.rule == bug.rule and self._may_be(report, bug) for report in self.reports):
            return KINDS[1]
        return KINDS[2] if any(report.line == bug.line for report in self.reports) else KINDS[3]

    def _may_be(self, report: Report, bug: Marked) -> bool:
        """Whether a report of another line may be of the same defect."""
        markers = self._at(report)
        return not markers or any(item.truth == bug.truth and item.is_cause is not bug.is_cause for item in markers)

    @property
    def bugs(self) -> list[Marked]:
        return [marker for marker in self.markers if marker.truth == "confirmed"]

    def accusations(self) -> Iterator[Report]:
        """Reports of what is right."""
        for report in self.reports:
            if not self.bugs or any(marker.truth == "refuted" for marker in self._at(report)):
                yield report

    def unmarked(self) -> Iterator[Report]:
        """Reports, in programs with true bugs, of lines and rules of which nothing is known."""
        return (report for report in self.reports if self.bugs and not self._at(report))

    def _at(self, report: Report) -> list[Marked]:
        return [marker for marker in self.markers if (marker.line, marker.rule) == (report.line, report.rule)]


def watched(path: Path, nursery: Nursery, limits: Limits, names: Sequence[str]) -> Watched:
    """Run a program, and read its markers."""
    source = SourceFile.read(path)
    command = [sys.executable, str(path)]
    seen = watch(command, Static([source], [], {}), path.parent, limits, names, launcher=nursery.launch)
    markers = [
        Marked(number, rule, truth, "unseen by the linter" in line)
        for number, line in enumerate(source.lines, 1)
        for rule, truth, _ in MARKER.findall(line)
    ]
    trouble = [item.trouble for item in seen.evidence if item.trouble]
    return Watched(path, markers, _reports(seen), seen.ended.description if seen.ended else "", trouble)


def _reports(seen: Verification) -> list[Report]:
    return [Report(item.finding.span.start.line, item.finding.name, item.verdict.reason) for item in seen.judged]


def tell(run: Watched) -> None:
    """Print what is to be read of one program."""
    lines = [f"{run.kind(bug)}: {bug.line} {bug.rule}" for bug in run.bugs if run.kind(bug) != KINDS[0]]
    lines += [f"ACCUSED: {item.line} {item.rule}: {item.reason}" for item in run.accusations()]
    lines += [f"unmarked: {item.line} {item.rule}: {item.reason}" for item in run.unmarked()]
    lines += [f"TROUBLE: {trouble}" for trouble in run.trouble]
    for line in lines:
        print(f"{run.path.name} ({run.ended}) {line}", flush=True)


def table(runs: Sequence[Watched]) -> None:
    """Print how many true bugs of each rule were found."""
    counts = Counter((bug.rule, run.kind(bug)) for run in runs for bug in run.bugs)
    print(f"\n{'':<40}" + "".join(f"{kind:>20}" for kind in KINDS))
    rules = sorted({rule for rule, _ in counts})
    for rule in rules:
        print(f"{rule:<40}" + "".join(f"{counts[rule, kind]:>20}" for kind in KINDS))
    print(f"{'all':<40}" + "".join(f"{sum(counts[rule, kind] for rule in rules):>20}" for kind in KINDS))
    accused = sum(len([*run.accusations()]) for run in runs)
    right = sum(not run.bugs for run in runs)
    print(f"{len(runs)} programs, {right} of them without a true bug; accusations of what is right: {accused}")


def _programs(paths: Sequence[Path]) -> list[Path]:
    found = [[path] if path.is_file() else sorted(path.glob("*.py")) for path in paths]
    return [path.resolve() for group in found for path in group] or PROGRAMS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-steps", type=int, default=Limits.max_steps, help="0: to their end")
    parser.add_argument("--max-seconds", type=float, default=Limits.max_seconds)
    parser.add_argument("--all", action="store_true", help="with the checks that are off by default, too")
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    names = [item.name for item in checks() if item.is_on or (arguments.all and item.name not in MODES)]
    nursery = Nursery()
    runs = []
    for path in _programs(arguments.paths):
        runs.append(watched(path, nursery, Limits(arguments.max_steps, arguments.max_seconds), names))
        tell(runs[-1])
    nursery.close()
    table(runs)


if __name__ == "__main__":
    main()
