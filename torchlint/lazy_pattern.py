"""Regular expressions that are compiled when they are first used: to compile them all takes longer than most files."""

from __future__ import annotations

import re
from functools import cached_property


class LazyPattern:
    """A regular expression over text, as `re.compile` gives it; a wrong one raises when it is used."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self.flags)

    def search(self, text: str) -> re.Match[str] | None:
        return self._compiled.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        return self._compiled.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._compiled.fullmatch(text)
