"""Imports that are followed: what a file imports of its repository, and which files are worth it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from torchlint.files.first_party import Search
from torchlint.files.source import SourceError, SourceFile, SyntaxProblem
from torchlint.files.sources import Sources, is_below
from torchlint.files.words import words_of
from torchlint.lazy_pattern import LazyPattern
from torchlint.pytorch import naming, packages, triggers

if TYPE_CHECKING:  # what takes longer to import than most files take
    from torchlint.index import FileIndex

MAX_SHIPPED = 1_000_000
"""Bytes of other modules that go along with a file to where there is no disk."""
MAX_BASES = 3
"""Through how many modules a class that trains is looked for among the bases of another."""
_LIBRARIES = sys.stdlib_module_names | packages.LIBRARIES
_NAME = LazyPattern(rb"\w+")
_REPEATS = LazyPattern(rb"^[ \t]*(?:for|while|class|async for)\b", re.MULTILINE)
_INHERITS = LazyPattern(rb"\n[ \t]*class[ \t]+(\w+)[ \t]*\(([^()]+)\)")
_CALLED = LazyPattern(rb"\b(\w+)[ \t]*\(")
_FUNCTION = LazyPattern(rb"\ndef[ \t]+(\w+)[ \t]*\(")
_DEFINITION = LazyPattern(rb"\b(?:def|class)\s+(\w+)")
_MAKES = LazyPattern(rb"make|build|create|get|new|setup|init|load")
_OPTIMIZES = LazyPattern(rb"opt(?:\w*\.step|im\.[A-Z]\w*|im\w*[sz]ers?)[ \t]*\(")
_ENTRY = LazyPattern(rb"[\"'][ \t]*:[ \t]*(\w+)[ \t]*[,}\n]")


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


class Reach(NamedTuple):
    """How far torchlint follows the imports of a file."""

    search: Search | None = None
    """Finds what the file imports; without one no other file is read."""
    follows: bool = False
    """Whether what it imports is followed; its text can be read all the same."""
    may_wake: bool = False
    """Whether imports are followed for rules that were not selected: a selected one may find something there."""


def imported_training(code: bytes, search: Search) -> tuple[bytes, ...] | None:
    """The texts of the modules that a program imports, if it trains, or repeats, changes or calls one that does.

    None: its imports are not followed. A test is analyzed alone.
    """
    if b"import" not in code:
        return None
    is_test = naming.is_test(search.inside_top, code)
    if trains(code):
        modules = {} if is_test else search.imported(code)
        return tuple(_with_bases(code, modules, search).values())
    if is_test:
        return None
    modules = search.imported(code)
    mentioned = _mentioned(code, modules, search)
    named = {path: text for path, text in modules.items() if not mentioned.isdisjoint(_defined(text))}
    names = {name for path, text in named.items() for name in _names_that_train(code, text, search.of(path))}
    names |= set(_aliases(names, modules, search)) if names else set()
    names |= set(_makers(code, modules, search))
    return tuple(_with_bases(code, modules, search).values()) if not names.isdisjoint(mentioned) else None


def _with_bases(code: bytes, modules: Mapping[str, bytes], search: Search) -> dict[str, bytes]:
    """The modules that define the bases of the classes that a program calls: a training loop may stand only there."""
    texts, called = dict(modules), _called(code)
    waiting = [(path, name) for path, text in modules.items() for name, _ in _derived(text) if name in called]
    for _ in range(MAX_BASES):
        found = [
            (base, search.of(path).imported_as(base.decode()))
            for path, name in waiting
            for known, bases in _derived(texts[path])
            if known == name
            for base in bases
        ]
        texts.update(item for _, others in found for item in others.items())
        waiting = [(path, base) for base, others in found for path in others]
    return texts


def _mentioned(code: bytes, modules: Iterable[str], search: Search) -> frozenset[bytes]:
    """The names that a program may train by: those it calls, in a loop or class all; with those that they stand for."""
    found = words_of(code).names if _REPEATS.search(code) else frozenset(_CALLED.findall(code))
    pairs = (pair for path in modules for item in search.sources.imports(path, search.top) for pair in item.names)
    return found.union(name.encode() for name, alias in pairs if alias and alias.encode() in found)


@lru_cache(maxsize=4096)
def _defined(text: bytes) -> frozenset[bytes]:
    """The names of all functions and classes of a module."""
    return frozenset(_DEFINITION.findall(text))


@lru_cache(maxsize=64)
def trains(code: bytes) -> bool:
    """Whether a file goes backward, or an optimizer steps or is made in it."""
    from torchlint.syntax.spare_trees import UNNAMED, spare

    index = _index(UNNAMED, code) if _may_train(code) else None
    if index is None:
        return False
    found = index.goes_backward or index.optimizes
    spare.put(index.tree)
    return found


def _may_train(code: bytes) -> bool:
    return any(word in code for word in triggers.BACKWARD) or _OPTIMIZES.search(code) is not None


def _index(path: str, code: bytes) -> FileIndex | None:
    """The index of a file; None of one that cannot be parsed."""
    from torchlint.index import FileIndex
    from torchlint.syntax.reading import read

    try:
        return FileIndex.of(read(SourceFile(path, code)))
    except (SyntaxProblem, SourceError, RecursionError, MemoryError):
        return None


def _names_that_train(code: bytes, text: bytes, search: Search) -> frozenset[bytes]:
    """The names of functions and classes of a module that train.

    Of the classes that `code` calls these are also those that inherit it from another module.
    """
    names = _training_names(search.path, text)
    called = (name for name, _ in _derived(text) if name not in names and name in _called(code))
    return names | {name for name in called if _trains(name, text, search, MAX_BASES)}


def _trains(name: bytes, text: bytes, search: Search, depth: int) -> bool:
    """Whether a function or class of a module goes backward, or inherits that from another module."""
    if name in _training_names(search.path, text):
        return True
    bases = (base for known, found in _derived(text) if known == name for base in found) if depth else ()
    return any(
        _trains(base, other, search.of(path), depth - 1)
        for base in bases
        for path, other in search.imported_as(base.decode()).items()
    )


@lru_cache(maxsize=8)
def _called(code: bytes) -> frozenset[bytes]:
    """The names of what a program calls, and of the values of tables from which they may be: `{"a": A}`."""
    return frozenset([*_CALLED.findall(code), *_ENTRY.findall(code)])


@lru_cache(maxsize=4096)
def _derived(text: bytes) -> tuple[tuple[bytes, list[bytes]], ...]:
    """The classes of a module that have bases, with the names in these."""
    return tuple((name, _NAME.findall(bases)) for name, bases in _INHERITS.findall(b"\n" + text))


@lru_cache(maxsize=4096)
def _training_names(path: str, text: bytes) -> frozenset[bytes]:
    """The names of functions and classes of a module that train."""
    index = _index(path, text) if _may_train(text) else None
    if index is None:
        return frozenset()
    from torchlint.syntax.spare_trees import spare

    found = frozenset(name.encode() for name in index.training_names)
    spare.put(index.tree)
    return found


@lru_cache(maxsize=4096)
def _maker_names(text: bytes) -> frozenset[bytes]:
    """The functions of a module whose names say that they make something."""
    return frozenset(name for name in _FUNCTION.findall(b"\n" + text) if _MAKES.search(name))


def _makers(code: bytes, modules: Mapping[str, bytes], search: Search) -> Iterator[bytes]:
    """The functions that a program calls and that may make what trains, of classes of a third module too:
    `make_agent(name)`."""
    for path, text in modules.items():
        makers = _called(code) & _maker_names(text)
        if makers:
            others = {**search.of(path).imported(text), path: text}
            if any(name in text for other in others.items() for name in _training_names(*other)):
                yield from makers


def _aliases(names: Set[bytes], modules: Iterable[str], search: Search) -> Iterator[bytes]:
    """The other names under which modules import what has one of these."""
    for path in modules:
        for item in search.sources.imports(path, search.top):
            yield from (alias.encode() for name, alias in item.names if alias and name.encode() in names)
