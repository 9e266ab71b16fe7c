"""Releases of PyTorch, and requirements such as `torch>=1.8,<2`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from torchlint.lazy_pattern import LazyPattern

Release = tuple[int, int]
"""Major and minor version; patches change nothing relevant."""

CURRENT: Release = (2, 13)
"""The release that `torchlint.pytorch` describes."""

_LONGEST = 300
"""Maximum length of a requirement."""
_LAST = 99
"""The minor version that ends a major one, if there is no better information."""
_CLAUSE = LazyPattern(
    r"\s*(===|==|~=|>=|<=|!=|>|<|\^|~|=)?\s*v?(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?[\w.+*]*(?:=[\w.]+)?\s*"
)
"""A clause of a requirement; in Conda's lists, the build follows a second `=`."""
_NAME = LazyPattern(r"\s*torch\s*(?:\[[^\]]{0,80}\])?\s*(?![\w.\-\[])\(?([^;#@)]{0,200})")


@dataclass(frozen=True)
class Releases:
    """The releases that a project supports, from the lowest to the highest."""

    lowest: Release = CURRENT
    highest: Release = CURRENT


def required(requirements: Iterable[str]) -> Releases | None:
    """The releases that requirements such as `torch>=1.8 ; python_version < "3.9"` allow; None without torch.

    Each is an alternative for another platform or another way to install.
    """
    starts = (text[:_LONGEST] for text in requirements)
    matches = [match for match in map(_NAME.match, starts) if match is not None]
    return together(specified(match[1]) for match in matches)


def together(releases: Iterable[Releases]) -> Releases | None:
    """The range from the lowest to the highest of all; None for an empty list."""
    known = list(releases)
    if not known:
        return None
    return Releases(min(item.lowest for item in known), max(item.highest for item in known))


def specified(specifiers: str) -> Releases:
    """The releases that `>=1.8,<2`, `==1.13.1`, `~=2.0` or Poetry's `^1.9` allow; the current one without a specifier.

    An unknown specifier allows all.
    """
    lowest: Release | None = None
    highest: Release | None = None
    for clause in specifiers.split(","):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            continue
        lower, upper = _bounds(match, clause)
        lowest = max(lowest or lower, lower) if lower else lowest
        highest = min(highest or upper, upper) if upper else highest
    highest = min(highest or CURRENT, CURRENT)
    return Releases(min(lowest or highest, highest), highest)


def _bounds(match: re.Match[str], clause: str) -> tuple[Release | None, Release | None]:
    """The lowest and the highest release that one clause allows."""
    operator, major, minor, patch = match[1] or "==", int(match[2]), match[3], match[4]
    release = (major, int(minor or 0))
    whole_major = minor is None
    if operator in ("==", "===", "="):
        return release, (major, _LAST) if whole_major and "*" in clause else release
    if operator == "~=":
        return release, release if patch is not None else (major, _LAST)
    if operator == "~":
        return release, (major, _LAST) if whole_major else release
    if operator == "^":
        return release, (major, _LAST) if major else release
    if operator in (">=", ">"):
        return release, None
    if operator == "<=":
        return None, release
    if operator == "<":
        return None, release if patch not in (None, "0") else _before(release)
    return None, None


def _before(release: Release) -> Release:
    major, minor = release
    return (major, minor - 1) if minor else (max(major - 1, 0), _LAST)
