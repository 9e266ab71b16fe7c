"""Which rules look at a file, by its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchlint.files.words import holds
from torchlint.lazy_pattern import LazyPattern
from torchlint.pytorch import api
from torchlint.rule import Rule
from torchlint.syntax.gc_pause import collector_paused
from torchlint.syntax.spelling import with_plain_names

_TORCH = LazyPattern(rb"^[ \t]*(?:import|from)[ \t][^\n#]*(?:\btorch|lightning|import[ \t]*\*)", re.MULTILINE)
_PACKAGES = (b"torch", b"lightning", b"accelerate", b"fastai")
"""Words in the names of PyTorch, of its packages, and of those with which people train without naming it."""
_USES_TORCH = LazyPattern(
    rb"^[ \t]*(?:import|from)[ \t][^\n#]*\b(?:(?:py|func)?torch|lightning|accelerate\b|fastai\b)", re.MULTILINE
)
_OTHERS = LazyPattern(
    rb"^[ \t]*(?:import|from)[ \t]+(?:%s)\b" % b"|".join(name.encode() for name in sorted(api.OTHER_FRAMEWORKS)),
    re.MULTILINE,
)


def uses_torch(code: bytes) -> bool:
    """Whether a program imports PyTorch, or a package that is built on it."""
    return holds(code, _PACKAGES) and _USES_TORCH.search(code) is not None


def looking(rules: Iterable[type[Rule]], data: bytes, imported: bytes = b"") -> list[type[Rule]]:
    """The rules that look at a file of these bytes: those that may fire.

    What trains in a module that the file imports is `imported`.
    """
    data = with_plain_names(data)
    together = data + b"\n" + imported if imported else data
    able = [rule for rule in rules if rule.may_fire(together)]
    if able and _OTHERS.search(data) and not _TORCH.search(data):
        return []  # of another framework, whose methods have the same names
    if imported:
        return able
    with collector_paused():
        return [rule for rule in able if rule.is_worth_a_parse(data)]
