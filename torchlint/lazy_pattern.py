"""Regular expressions that are compiled when they are first used: to compile them all takes longer than most files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, AnyStr, Generic


class LazyPattern(Generic[AnyStr]):
    """A regular expression over text or bytes, as `re.compile` gives it; a wrong one raises when it is used."""

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern: AnyStr = pattern
        self.flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[AnyStr]:
        return re.compile(self.pattern, self.flags)

    def search(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> re.Match[AnyStr] | None:
        return self._compiled.search(text, start, end)

    def match(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> re.Match[AnyStr] | None:
        return self._compiled.match(text, start, end)

    def fullmatch(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> re.Match[AnyStr] | None:
        return self._compiled.fullmatch(text, start, end)

    def finditer(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[AnyStr]]:
        return self._compiled.finditer(text, start, end)

    def findall(self, text: AnyStr, start: int = 0, end: int = sys.maxsize) -> list[Any]:
        return self._compiled.findall(text, start, end)

    def split(self, text: AnyStr) -> list[AnyStr]:
        return self._compiled.split(text)

    def sub(self, new: AnyStr | Callable[[re.Match[AnyStr]], AnyStr], text: AnyStr) -> AnyStr:
        return self._compiled.sub(new, text)
