"""Compares the findings of rules that are all asked with the rules that the gate lets through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from torchlint.engine.diagnostics import Crashes
from torchlint.engine.following import Reach
from torchlint.engine.gate import by_syntax, by_words
from torchlint.engine.registry import Selection
from torchlint.engine.run_rules import walk
from torchlint.engine.suppressions import Suppressions
from torchlint.files.source import SourceFile
from torchlint.finding import Finding
from torchlint.index import FileIndex, changes
from torchlint.rule import Rule
from torchlint.syntax.reading import read


@contextmanager
def everything_asked(rules: Iterable[type[Rule]]) -> Iterator[None]:
    """Ask all rules about each file that is parsed, and interpret each function that changes something in place."""
    every = property(lambda index: list(changes.written(index.tree)))
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(FileIndex, "tensor_changes", every))
        for rule in rules:
            patches.enter_context(mock.patch.object(rule, "concerns", lambda index: True))
        yield


def findings(data: bytes, rules: tuple[type[Rule], ...]) -> list[Finding]:
    """All findings of these rules, each run as if nothing had been asked first."""
    source = SourceFile("program.py", data)
    with everything_asked(rules):
        return walk(source, rules, Selection(tuple(rules)), Suppressions(source), Crashes(source), None, Reach())


def missed(data: bytes, rules: tuple[type[Rule], ...]) -> Iterator[Finding]:
    """Findings of a rule that does not examine the program itself."""
    code = SourceFile("program.py", data).code
    found = findings(data, rules)
    named = {finding.name for finding in found}
    blind = {rule.rule_name() for rule in rules if rule.rule_name() in named and not _looks(rule, code)}
    return (finding for finding in found if finding.name in blind)


def _looks(rule: type[Rule], code: bytes) -> bool:
    return bool(by_syntax(by_words([rule], code), FileIndex(read(SourceFile("program.py", code)))))
