"""Options that are asked twice: a finding must hold in one of the cases that they distinguish."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from torchlint.model.cases import Case
from torchlint.model.queries.options import Options
from torchlint.rule import Report, Rule
from torchlint.syntax.python_ast import Site

Told: TypeAlias = tuple[type[Rule], Report]
MAX_OPTIONS = 6
"""Options of which the cases are tried in a file."""


def holding(told: list[Told], options: Options, again: Callable[[Case, set[type[Rule]]], Iterable[Told]]) -> list[Told]:
    """The reports that are made in at least one case of each option that decides whether their places are reached.

    What a program interprets once holds for all its options at a time; that may join what one of them keeps apart.
    `again` makes the reports of some rules, with an option taken to be something.
    """
    doubtful: dict[str, list[Told]] = {}
    for item in told:
        for option in dict.fromkeys(option for site in _sites(item[1]) for option in options.around(site)):
            doubtful.setdefault(option, []).append(item)
    wrong: list[Told] = []
    for option in [*doubtful][:MAX_OPTIONS]:
        left = [item for item in doubtful[option] if item not in wrong]
        for case in options.cases(option) if left else ():
            found = {key_of(*item) for item in again(case, {rule for rule, _ in left})}
            left = [item for item in left if key_of(*item) not in found]
            if not left:
                break
        wrong += left
    return [item for item in told if item not in wrong]


def _sites(report: Report) -> list[Site]:
    places = (report.place, report.subject, *(place for place, _ in report.related))
    return [place for place in places if isinstance(place, Site)]


def key_of(rule: type[Rule], report: Report) -> object:
    """The identity of a report, the same in every interpretation of the program."""
    return rule, getattr(report.place, "here", report.place)
