"""Imports of one file: where they lead in its repository, as Python would find it. Nothing is imported."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from torchlint.files.sources import PACKAGE, Handing, Import, Module, Reached, Sources, imports_in, is_below, upward

MAX_FILES = 2_000
"""The maximum number of modules that a search from one file returns."""
MAX_BESIDE = 100
"""Modules at most among which those are looked for that fill the tables of one."""
MAX_ON_THE_WAY = 1_000_000
"""Bytes of modules that are looked through for one that is on the way."""
MAX_REEXPORTS = 64
"""Names that are looked for in modules which hand them on to one another, for one name that is imported."""


@dataclass
class Search:
    """Finds modules for one file that imports them, and remembers what it has asked for.

    A module is named by its base: the path of its file, or of its folder, without a suffix.
    """

    path: str
    """The absolute path of the file that imports."""
    top: str
    """The folder that is never left."""
    sources: Sources
    folders: tuple[str, ...] = ()
    """Where a configuration says that modules are looked for, before all else: absolute paths."""
    libraries: frozenset[str] = frozenset()
    """Packages that no file of the repository stands for, whatever its name."""
    _asked: set[str] = field(default_factory=set)
    _asked_from: set[str] = field(default_factory=set)
    """The folders of the files that asked for top-level modules."""
    _asked_below: set[str] = field(default_factory=set)
    """The folders below which was looked for who imports something."""

    def of(self, path: str) -> Search:
        """The search of another file of the repository; what it asks for is asked for here."""
        return replace(self, path=path)

    def holds(self, path: str) -> bool:
        """Whether a file belongs to the same repository, and to none inside it."""
        return self.sources.top_of(os.path.dirname(path)) == self.top

    def way_to(self, path: str) -> str:
        """The way from the folder of the file to another."""
        return os.path.relpath(path, os.path.dirname(self.path))

    @property
    def inside_top(self) -> str:
        """The path of the file from the folder of the repository."""
        return os.path.relpath(self.path, self.top)

    @property
    def asked(self) -> frozenset[str]:
        """All bases at which something was looked for."""
        return frozenset(self._asked)

    def modules(self) -> tuple[Module, ...]:
        """All that was asked for, and what decided where it was looked for, as it is."""
        found = [self.sources.top(os.path.dirname(self.path))] if self._asked or self._asked_below else []
        found += [self.sources.search_path(folder, self.top) for folder in sorted(self._asked_from)]
        found += map(self.sources.all_below, sorted(self._asked_below))
        return (*found, *(self.sources.module(base, self.top) for base in sorted(self._asked)))

    def importers(self, name: bytes, words: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """The paths and texts of the files that import this one, and hold a name and one of some words."""
        self._asked_below.add(self.top)
        for path, data in self._below(self.top, words):
            if path != self.path and name in data and self.path in self.of(path).imported(data):
                yield path, data

    def mentioning(self, words: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """The paths and texts of the other files that hold one of some words, whatever they import."""
        self._asked_below.add(self.top)
        yield from ((path, data) for path, data in self._below(self.top, words) if path != self.path)

    def users(self, name: bytes) -> Iterator[tuple[str, bytes]]:
        """The paths and texts of the files that hold a name and import this one, or what imports it, and so on."""
        self._asked_below.add(self.top)
        for path, data in self._below(self.top, (name,)):
            if path != self.path and b"import" in data and self.path in self.of(path).reachable(data, MAX_ON_THE_WAY):
                yield path, data

    def holding(self, folder: str, words: Iterable[bytes]) -> Iterator[str]:
        """The bases of the modules in a folder, and below, that hold one of some words; none where there are many."""
        self._asked_below.add(folder)
        found = self._below(folder, words) if len(self.sources.files_below(folder)) <= MAX_BESIDE else ()
        return (path.removesuffix(".py").removesuffix(f"{os.sep}{PACKAGE}") for path, _ in found)

    def _below(self, folder: str, words: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """The paths and texts of the modules in a folder, and below, that hold one of some words."""
        words = list(words)
        for path in self.sources.files_below(folder):
            data = self.sources.read(path, self.top)
            if data is not None and any(word in data for word in words):
                yield path, data

    # -- one module ---------------------------------------------------------------------------------

    def base_of(self, name: str, importer: str) -> str | None:
        """The base of a module by its dotted name, as a file imports it; None if it is not one of the repository's."""
        base, parts = self.start(name, importer)
        for part in parts:
            base = self.inside(base, part) if base is not None else None
        return base

    def start(self, name: str, importer: str) -> tuple[str | None, list[str]]:
        """The base that a dotted name begins with, as the file at the path `importer` imports it, and the rest."""
        inner = name.lstrip(".")
        parts = inner.split(".") if inner else []
        if level := len(name) - len(inner):
            return self._relative(level, importer), parts
        if not parts or parts[0] in self.libraries:
            return None, []
        return self._absolute(parts[0], importer), parts[1:]

    def _absolute(self, name: str, importer: str) -> str | None:
        folder = os.path.dirname(importer)
        self._asked_from.add(folder)
        found, asked = self.sources.find(name, (*self.folders, *self.sources.path_of(folder, self.top)))
        self._asked.update(asked)
        return found

    def _relative(self, level: int, importer: str) -> str | None:
        """The base of the package that so many dots stand for."""
        folder = os.path.dirname(importer)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return folder if is_below(folder, self.top) else None

    def inside(self, base: str, name: str) -> str | None:
        """The base of a module of a package."""
        below = os.path.join(base, name)
        self._asked.add(below)
        return below if self.sources.kind(below) else None

    def read(self, base: str) -> bytes | None:
        """The text of a module; None if it has none that can be read."""
        path = self.sources.file_of(base)
        return self.sources.read(path, self.top) if path is not None else None

    def handed_on(self, base: str, name: str) -> str | None:
        """The import, as written, through which a module passes on a name; None if there is none."""
        return next(iter(self._written(base, name)), None)

    def _written(self, base: str, name: str) -> Sequence[str]:
        """All that a module may import under a name, as it is written there."""
        path = self.sources.file_of(base)
        return self.sources.handed_on(path, self.top).get(name, ()) if path is not None else ()

    # -- all modules --------------------------------------------------------------------------------

    def imported(self, code: bytes) -> dict[str, bytes]:
        """The texts, by path, of the modules that a program imports at once, and of what packages among them hand on.

        Of a package that is imported as a whole, or for a name that it may have by `import *`, that is all it imports.
        """
        return self._texts(imports_in(code))

    def imported_as(self, name: str) -> dict[str, bytes]:
        """The texts, by path, of the modules from which the file of this search may import a name."""
        return self._texts(item for item in self.sources.imports(self.path, self.top) if item.binds(name))

    def _texts(self, imports: Iterable[Import]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for reached in dict.fromkeys(self._reached(imports, self.path)):
            path = self.sources.file_of(reached.base)
            is_package = path is not None and os.path.basename(path) == f"{PACKAGE}.py"
            handed_on = self._all_handed_on(path) if path and is_package and reached.as_whole else ()
            for base in (reached.base, *handed_on):
                path = self.sources.file_of(base)
                data = self.read(base) if path is not None and path not in found else None
                if path is not None and data is not None:
                    found[path] = data
        return found

    def _all_handed_on(self, path: str) -> tuple[str, ...]:
        """The modules that a package imports, for whoever imports it as a whole."""
        key = path, self.top, self.folders
        known = self.sources.handing.get(key)
        if known is None:
            search = replace(self, path=path, _asked=set(), _asked_from=set())
            imports = self.sources.imports(path, self.top)
            bases = tuple(dict.fromkeys(reached.base for reached in search._reached(imports, path)))
            known = self.sources.handing[key] = Handing(bases, search._asked, search._asked_from)
        self._asked |= known.asked
        self._asked_from |= known.asked_from
        return known.bases

    def direct(self, code: bytes) -> set[str]:
        """The paths of the modules that a program imports, and of the packages on the way to them."""
        bases = [reached.base for reached in self._reached(imports_in(code), self.path)]
        packages = (above for base in bases for above in upward(base) if is_below(above, self.top))
        files = (self.sources.file_of(base) for base in dict.fromkeys([*bases, *packages]))
        return {path for path in files if path is not None}

    def reachable(self, code: bytes, limit: int) -> dict[str, bytes]:
        """The texts, by path, of all modules that a program imports, and that these import, up to so many bytes.

        With them come the packages that they belong to.
        """
        found: dict[str, bytes] = {}
        real: set[str] = set()
        total = 0
        waiting = deque([(self.path, list(imports_in(code)))])
        while waiting and total < limit and len(found) < MAX_FILES:
            importer, imports = waiting.popleft()
            for base in dict.fromkeys(reached.base for reached in self._reached(imports, importer)):
                path, data = self.sources.file_of(base), self.read(base)
                if path is None or data is None or os.path.realpath(path) in real:
                    continue
                real.add(os.path.realpath(path))
                found[path] = data
                total += len(data)
                waiting.append((path, self.sources.imports(path, self.top)))
        for folder in {above for path in (self.path, *found) for above in upward(os.path.dirname(path))}:
            package = os.path.join(folder, f"{PACKAGE}.py")
            if is_below(folder, self.top) and f"{PACKAGE}.py" in self.sources.names(folder):
                found.setdefault(package, self.sources.read(package, self.top) or b"")
        return found

    def _reached(self, imports: Iterable[Import], importer: str) -> Iterator[Reached]:
        """The modules that imports lead to; a name may be that of a submodule."""
        for module, names in imports:
            for name in [module] if module else [name for name, _ in names]:
                base = self.base_of(name, importer)
                if base is not None:
                    yield from self._handing(base, [name for name, _ in names] if module else [])

    def _handing(self, base: str, names: list[str], asked: set[tuple[str, str]] | None = None) -> Iterator[Reached]:
        """A module of which names are imported, none if it is as a whole, and those that it has them from.

        `asked` are the names of modules that were looked for on the way here.
        """
        places = [list(self._places_of(base, name, set() if asked is None else asked)) for name in names]
        yield Reached(base, not names or (not all(places) and self._hands_on_all(base)))
        for place in places:
            yield from place

    def _hands_on_all(self, base: str) -> bool:
        """Whether a module has names that are not written in it."""
        path = self.sources.file_of(base)
        return path is not None and any(not names for _, names in self.sources.imports(path, self.top))

    def _places_of(self, base: str, name: str, asked: set[tuple[str, str]]) -> Iterator[Reached]:
        """The modules that a module has a name from, or that it stands for; else its submodule."""
        path, written = self.sources.file_of(base), self._written(base, name)
        is_new = (base, name) not in asked and len(asked) < MAX_REEXPORTS
        asked.add((base, name))
        for target in written if path is not None and is_new else ():
            within, _, last = target.rpartition(".")
            if (module := self.base_of(target, path or "")) is not None:
                yield Reached(module, as_whole=True)
            elif within.strip(".") and (module := self.base_of(within, path or "")) is not None:
                yield from self._handing(module, [last], asked)
        if not written and path != f"{base}.py" and (module := self.inside(base, name)) is not None:
            yield Reached(module, as_whole=True)


def beside(path: str, way: str) -> str:
    """The path of what lies `way` from the folder of a file, written as that of the file is."""
    return os.path.normpath(os.path.join(os.path.dirname(path), way))
