"""Which rules run on a file: words decide first, then its syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torchlint.engine.rule_table import AnyRule, loaded
from torchlint.files.words import words_of
from torchlint.lazy_pattern import LazyPattern
from torchlint.pytorch import packages
from torchlint.rule import Rule
from torchlint.syntax.spelling import with_plain_lines, with_plain_names

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_TORCH = LazyPattern(rb"^[ \t]*(?:import|from)[ \t][^\n#]*(?:\btorch|lightning|import[ \t]*\*)", re.MULTILINE)
_PACKAGES = (b"torch", b"lightning", b"accelerate", b"fastai")
"""Words in the names of PyTorch, of its packages, and of those with which people train without naming it."""
_USES_TORCH = LazyPattern(
    rb"^[ \t]*(?:import|from)[ \t][^\n#]*\b(?:(?:py|func)?torch|lightning|accelerate\b|fastai\b)", re.MULTILINE
)
_OTHERS = LazyPattern(
    rb"^[ \t]*(?:import|from)[ \t]+(?:%s)\b" % b"|".join(name.encode() for name in sorted(packages.OTHER_FRAMEWORKS)),
    re.MULTILINE,
)


def uses_torch(code: bytes) -> bool:
    """Whether a program imports PyTorch, or a package that is built on it."""
    return any(name in code for name in _PACKAGES) and _USES_TORCH.search(code) is not None


def by_words(rules: Iterable[AnyRule], code: bytes, imported: Sequence[bytes] = ()) -> list[type[Rule]]:
    """The rules whose words stand in a file, or in the texts of the modules that are followed from it, imported."""
    code = with_plain_names(code)
    texts = (code, *imported)
    files = [words_of(text) for text in texts]
    able = [rule for rule in rules if all(any(file.hold(group) for file in files) for group in rule.triggers)]
    if able and _OTHERS.search(code) and not _TORCH.search(code):
        return []  # the file uses another framework, whose methods have the same names
    together = with_plain_lines(b"\n".join(texts)) if able else b""
    return [rule for rule in map(loaded, able) if rule.may_fire(together)]


def by_syntax(rules: Iterable[type[Rule]], index: FileIndex) -> list[type[Rule]]:
    """The rules that a file concerns, by its syntax."""
    return [rule for rule in rules if rule.concerns(index)]
