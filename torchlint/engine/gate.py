"""Which rules run on a file: words decide first, then its syntax."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from torchlint.engine.rule_table import AnyRule, loaded
from torchlint.files.words import Group, Words, group_of, note_names, words_of
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
    # The groups first: then the vocabulary is complete, and each file is searched for all words at once.
    grouped = [(rule, _groups(rule)) for rule in rules]  # type: ignore[arg-type]
    able = [rule for rule, groups in grouped if all(_is_in_one(files, group) for group in groups)]
    if not able or (_OTHERS.search(code) and not _TORCH.search(code)):
        return []  # or the file uses another framework, whose methods have the same names
    together = with_plain_lines(b"\n".join(texts))
    note_names(together, frozenset().union(*(file.names for file in files)))
    return [rule for rule in map(loaded, able) if rule.may_fire(together)]


def _is_in_one(files: Sequence[Words], group: Group) -> bool:
    return any(file.hold_one(group) for file in files)


@lru_cache(maxsize=1024)
def _groups(rule: AnyRule) -> tuple[Group, ...]:
    return tuple(group_of(tuple(words)) for words in rule.triggers)


def by_syntax(rules: Iterable[type[Rule]], index: FileIndex) -> list[type[Rule]]:
    """The rules that a file concerns, by its syntax."""
    return [rule for rule in rules if rule.concerns(index)]
