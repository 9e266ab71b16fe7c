"""Imports that are followed: what a file imports of its repository, and which files are worth it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache

from torchlint import prefilter
from torchlint.files.first_party import Search
from torchlint.files.sources import Sources, imports_in, is_below
from torchlint.lazy_pattern import LazyPattern
from torchlint.pytorch import api, naming

MAX_SHIPPED = 1_000_000
"""Bytes of other modules that go along with a file to where there is no disk."""
_LIBRARIES = sys.stdlib_module_names | api.LIBRARIES
_NAME = LazyPattern(rb"\w+")
_REPEATS = LazyPattern(rb"^[ \t]*(?:for|while|class|async for)\b", re.MULTILINE)
_CALLED = LazyPattern(rb"(\w+)[ \t]*\(")


@dataclass(frozen=True, eq=False)
class Following:
    """How imports are followed: in which sources, and from where paths are meant."""

    sources: Sources = field(default_factory=Sources)
    folders: tuple[str, ...] = ()
    """Where modules are looked for before all else: absolute paths."""
    here: str = field(default_factory=os.getcwd)
    top: str = ""
    """The folder that is never left, if it is known; else it is looked for."""

    def search(self, path: str) -> Search:
        """The search for what the file of this path imports."""
        whole = os.path.normpath(os.path.join(self.here, path))
        top = self.top or self.sources.top_of(os.path.dirname(whole))
        folders = tuple(folder for folder in self.folders if is_below(folder, top))
        return Search(whole, top, self.sources, folders, _LIBRARIES)

    def shipped(self, path: str, code: bytes) -> Following:
        """For where there is no disk: with the texts of all that a program at this path may import."""
        search = self.search(path)
        texts = search.reachable(code, MAX_SHIPPED)
        return Following(Sources(texts, on_disk=False), self.folders, self.here, search.top)


def imported_training(code: bytes, search: Search) -> bytes | None:
    """The texts of the modules that a program imports, if it goes backward, or repeats, changes or calls one that does.

    None: its imports are not followed. A test is looked into for what it does itself.
    """
    if b"import" not in code:
        return None
    is_test = naming.is_test(search.inside_top)
    if prefilter.goes_backward(code):
        return b"" if is_test else b"\n".join(search.imported(code).values())
    if is_test:
        return None
    texts = list(search.imported(code).values())
    names = {name for text in texts for name in _training_names(text)}
    aliases = (pair for text in texts for pair in _aliases(text)) if names else ()
    names |= {alias for name, alias in aliases if name in names}
    if not any(name in code for name in names):
        return None
    mentioned = (_NAME if _REPEATS.search(code) else _CALLED).findall(code)
    return b"\n".join(texts) if not names.isdisjoint(mentioned) else None


@lru_cache(maxsize=4096)
def _training_names(text: bytes) -> frozenset[bytes]:
    """The names of functions and classes of a module that go backward."""
    return prefilter.training_names(text)


@lru_cache(maxsize=4096)
def _aliases(text: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The names that a module imports under another one, and these."""
    pairs = (pair for item in imports_in(text) for pair in item.names)
    return tuple((name.encode(), alias.encode()) for name, alias in pairs if alias)
