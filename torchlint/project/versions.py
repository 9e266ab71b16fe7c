"""`required-version`: which releases of torchlint a configuration is written for."""

from __future__ import annotations

import re

from torchlint.lazy_pattern import LazyPattern

_CLAUSE = LazyPattern(r"\s*(==|~=|>=|<=|!=|>|<)?\s*(\d{1,6}(?:\.\d{1,6}){0,3})(\.\*)?\s*")
_NUMBERS = LazyPattern(r"\d+(?:\.\d+)*")
_LENGTH = 4

_Release = tuple[int, ...]


class NoRequirement(Exception):
    """A text that asks for no releases."""


def satisfies(version: str, specifiers: str) -> bool:
    """Whether a release such as `0.2.0` is one of `>=0.2,<0.4`, `~=0.2.1`, `==0.2.*` or `0.2.0`.

    Of a pre-release the numbers count. Raises `NoRequirement`.
    """
    clauses = [_CLAUSE.fullmatch(clause) for clause in specifiers.split(",")]
    numbers = _NUMBERS.match(version)
    if not all(clauses) or numbers is None:
        raise NoRequirement
    release = _release(numbers[0])
    return all(_allows(clause, release) for clause in clauses if clause is not None)


def _allows(clause: re.Match[str], release: _Release) -> bool:
    operator, wanted = clause[1] or "==", _release(clause[2])
    if operator == "~=":
        if "." not in clause[2] or clause[3]:
            raise NoRequirement
        return release >= wanted and _begins(release, clause[2].rpartition(".")[0])
    if clause[3]:
        if operator not in ("==", "!="):
            raise NoRequirement
        return _begins(release, clause[2]) is (operator == "==")
    return {
        "==": release == wanted,
        "!=": release != wanted,
        ">=": release >= wanted,
        "<=": release <= wanted,
        ">": release > wanted,
        "<": release < wanted,
    }[operator]


def _begins(release: _Release, text: str) -> bool:
    return release[: text.count(".") + 1] == _release(text)[: text.count(".") + 1]


def _release(text: str) -> _Release:
    """The numbers of a release, as many for each: 1.0 is 1.0.0."""
    numbers = tuple(map(int, text.split(".")))
    return numbers + (0,) * (_LENGTH - len(numbers))
