"""The options for old code bases: --baseline, --since and --add-ignores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchlint.cli.errors import UserError, complain
from torchlint.cli.options import PathType, all_of, check_folder_of, say, variable
from torchlint.outputs import counted

if TYPE_CHECKING:
    from torchlint.adoption.baseline import Baseline
    from torchlint.adoption.since import Changes
    from torchlint.engine.fixer import Fixing
    from torchlint.files.source import SourceFile
    from torchlint.finding import Finding
    from torchlint.project.discovery import Target
    from torchlint.results import LintedFile, Outcome
    from torchlint.run.runner import Means, Progress


def _checked_reason(ctx: click.Context, option: click.Parameter, reason: str | None) -> str | None:
    if reason is not None:
        from torchlint.adoption.add_ignores import check_reason

        try:
            check_reason(reason)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return reason


_OPTIONS = (
    click.option(
        "--baseline",
        type=PathType(dir_okay=False),
        metavar="FILE",
        help="Report only findings that this file does not contain. --update-baseline creates the file.",
        **variable("baseline"),
    ),
    click.option(
        "--no-baseline", is_flag=True, help="Report all findings, even if the configuration names a baseline."
    ),
    click.option(
        "--update-baseline",
        is_flag=True,
        help="Write all findings to the --baseline file instead of reporting them. If you lint only some "
        "files, the entries of other files stay.",
    ),
    click.option(
        "--since",
        metavar="REV",
        help="Report only findings that are new since this Git revision: on changed lines, or caused by "
        "a change elsewhere in the file. Uncommitted changes and untracked files count. For the "
        "changes of this branch, use main. For uncommitted changes, use HEAD.",
    ),
    click.option(
        "--add-ignores",
        is_flag=True,
        help="Suppress all findings: append `# torchlint: ignore[...]` to their lines.",
    ),
    click.option(
        "--reason",
        callback=_checked_reason,
        metavar="TEXT",
        help="A reason for --add-ignores to write into the comments: `# torchlint: ignore[...] TEXT`.",
    ),
)


adoption_options = all_of(_OPTIONS)


@dataclass(frozen=True)
class Adoption:
    """Which findings count, and how torchlint records the old ones."""

    baseline: Path | None
    update_baseline: bool
    since: str | None
    add_ignores: bool
    reason: str | None
    quiet: bool

    @property
    def narrows(self) -> bool:
        """Whether not all findings count."""
        return self.baseline is not None or self.since is not None

    def check_fixing(self) -> None:
        """Refuse options that contradict fixes."""
        for option, is_given in (("--add-ignores", self.add_ignores), ("--update-baseline", self.update_baseline)):
            if is_given:
                raise click.UsageError(f"{option} stores the findings that fixes leave: run it alone, after the fixes")

    def check(self, stdin: bool, no_baseline: bool) -> None:
        """Refuse contradictory options, before torchlint reads any file."""
        if self.reason is not None and not self.add_ignores:
            raise click.UsageError("--reason needs --add-ignores: add it, or leave out --reason")
        if no_baseline and self.baseline is not None:
            raise click.UsageError("--no-baseline and --baseline exclude each other")
        if self.update_baseline and (self.since is not None or self.add_ignores):
            raise click.UsageError("--update-baseline stores all findings: leave out --since and --add-ignores")
        if not stdin:
            return
        for name in ("update_baseline", "since", "add_ignores"):
            if getattr(self, name):
                raise click.UsageError(f"--{name.replace('_', '-')} needs files: it cannot be used with `-`")

    def check_baseline(self, origin: str) -> None:
        """Refuse a baseline that does not exist or cannot be written; `origin` is the option or key that names it."""
        if self.update_baseline and self.baseline is None:
            raise click.UsageError("--update-baseline needs --baseline FILE, the file to write")
        if self.update_baseline:
            check_folder_of(self.baseline)
        elif self.baseline is not None and not os.path.lexists(self.baseline):
            how = "add --update-baseline to write the findings of this run into it"
            raise UserError(f"{origin}: there is no baseline {self.baseline}; {how}")

    def run(self, targets: list[Target], progress: Progress, means: Means, fixing: Fixing | None) -> Outcome:
        """Lint the targets that count and apply the options; return the findings to report."""
        if fixing is not None and not self.narrows:
            from torchlint.run.runner import run

            return run(targets, progress, fixing, means)
        return replace(self._run(targets, progress, means, fixing), new_only=self.narrows)

    def _run(self, targets: list[Target], progress: Progress, means: Means, fixing: Fixing | None) -> Outcome:
        baseline, changes = self._read(), self._changes()
        targets, reported = self._lint(targets, baseline, changes, progress, means, self._say)
        if fixing is not None:
            return _fixed(reported, targets, baseline, changes, fixing)
        if self.add_ignores:
            return self._with_ignores(targets, reported, means)
        return reported

    def of_stdin(self, outcome: Outcome, targets: list[Target], fixing: Fixing | None) -> Outcome:
        """The new findings in the file on standard input, or the result of fixing them."""
        baseline = self._read()
        if baseline is None:
            return outcome
        outcome = replace(outcome, new_only=True)
        if fixing is not None:
            return _fixed(outcome, targets, baseline, None, fixing)
        return baseline.without_known(outcome)

    def _lint(
        self,
        targets: list[Target],
        baseline: Baseline | None,
        changes: Changes | None,
        progress: Progress,
        means: Means,
        say: Callable[[str], None],
    ) -> tuple[list[Target], Outcome]:
        from torchlint.run.runner import run

        if changes is not None and targets:
            targets = changes.only(targets)
            if not targets:
                say(f"no files have changed since {self.since}")
        outcome = run(targets, progress, means=means)
        if baseline is not None:
            outcome = self._compared(baseline, targets, outcome, say)
        return targets, outcome if changes is None else changes.narrowed(outcome, targets)

    def _changes(self) -> Changes | None:
        if self.since is None:
            return None
        from torchlint.adoption.since import Changes

        return Changes(self.since)

    def _read(self) -> Baseline | None:
        if self.baseline is None:
            return None
        from torchlint.adoption.baseline import Baseline

        try:
            return Baseline.read(self.baseline)
        except FileNotFoundError:
            if self.update_baseline:
                return Baseline(self.baseline)
            raise UserError(f"there is no baseline {self.baseline}") from None

    def _compared(
        self, baseline: Baseline, targets: list[Target], outcome: Outcome, say: Callable[[str], None]
    ) -> Outcome:
        if self.update_baseline:
            baseline = baseline.updated(targets, outcome)
            baseline.write()
            say(f"Wrote {counted(len(baseline.entries), 'finding')} to {self.baseline}.")
        elif gone := len(baseline.obsolete(targets, outcome)):
            entries = "1 entry" if gone == 1 else f"{gone:,} entries"
            say(
                f"{entries} of the baseline no longer occur{'s' * (gone == 1)}; --update-baseline removes "
                f"{'it' if gone == 1 else 'them'}"
            )
        return baseline.without_known(outcome)

    def _with_ignores(self, targets: list[Target], outcome: Outcome, means: Means) -> Outcome:
        """Add comments until no finding is left: a line with a new comment counts as changed."""
        by_path = {str(target.path): target for target in targets}
        left = {file.source.path: file for file in outcome.files}
        noticed = {file.source.path: file for file in outcome.noticed}
        added: dict[str, int] = {}
        unwritten: list[str] = []
        todo = list(left.values())
        while counts := {file.source.path: count for file in todo if (count := self._add(file, by_path, unwritten))}:
            added.update({path: added.get(path, 0) + count for path, count in counts.items()})
            changed = [by_path[path] for path in counts]
            quiet = lambda *_: None  # noqa: E731 - neither progress nor messages
            again = self._lint(changed, self._read(), self._changes(), quiet, means, quiet)[1]
            todo = list(again.files)
            for known, new in ((left, again.files), (noticed, again.noticed)):
                for path in counts:
                    known.pop(path, None)
                known.update({file.source.path: file for file in new})
        self._say(f"Added {counted(sum(added.values()), 'ignore')} in {counted(len(added), 'file')}.")
        files, notices = (tuple(known[path] for path in by_path if path in known) for known in (left, noticed))
        return replace(outcome, files=files, unwritten=tuple(unwritten), noticed=notices)

    def _add(self, file: LintedFile, targets: dict[str, Target], unwritten: list[str]) -> int:
        from torchlint.adoption import add_ignores
        from torchlint.files.atomic_write import WriteError

        path = targets[file.source.path].path
        try:
            return add_ignores.add(file, targets[file.source.path].settings.selection(path), self.reason or "")
        except WriteError as error:
            complain(str(error))
            unwritten.append(file.source.path)
            return 0

    def _say(self, text: str) -> None:
        if not self.quiet:
            say(text)


def _fixed(
    outcome: Outcome, targets: list[Target], baseline: Baseline | None, changes: Changes | None, fixing: Fixing
) -> Outcome:
    """The outcome after fixing the findings that count, in this process."""
    by_path = {str(target.path): target for target in targets}
    files = [_fixed_file(file, by_path[file.source.path], baseline, changes, fixing) for file in outcome.files]
    return replace(outcome, files=tuple(files))


def _fixed_file(
    file: LintedFile, target: Target, baseline: Baseline | None, changes: Changes | None, fixing: Fixing
) -> LintedFile:
    from torchlint.engine.fixer import fix, is_applicable
    from torchlint.results import LintedFile, Tally

    if not any(is_applicable(finding, fixing.unsafe) for finding in file.findings):
        return file

    def counting(source: SourceFile, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The findings that are new in a version of the file."""
        new = tuple(item for item in findings if baseline is None or not baseline.knows(item))
        if changes is None:
            return new
        return changes.touched(source, new, target, edited=source is not file.source)

    fixed = fix(file.source, target.settings.selection(target.path), unsafe=fixing.unsafe, wanted=counting)
    before = LintedFile(file.source, counting(file.source, fixed.before)) if fixed.applied else None
    left = counting(fixed.source, fixed.findings)
    return LintedFile(fixed.source, left, before, fixed.applied, Tally(fixed.uses_torch))
