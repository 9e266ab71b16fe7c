"""Imports of one file: where they lead in its repository, as Python would find it. Nothing is imported."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from torchlint.files.sources import PACKAGE, Import, Module, Sources, imports_in, is_below, upward

MAX_FILES = 2_000
"""Modules that are looked for at most where all are wanted that a file leads to."""


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

    def of(self, path: str) -> Search:
        """The search of another file of the repository; what it asks for is asked for here."""
        return replace(self, path=path)

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
        found = [self.sources.top(os.path.dirname(self.path))] if self._asked else []
        found += [self.sources.search_path(folder, self.top) for folder in sorted(self._asked_from)]
        return (*found, *(self.sources.module(base, self.top) for base in sorted(self._asked)))

    # -- one module ---------------------------------------------------------------------------------

    def base_of(self, name: str, importer: str) -> str | None:
        """The base of a module by its dotted name, as a file imports it; None if it is none of the repository's."""
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
        """What a module imports under a name, as it is written there; None if that is nothing."""
        path = self.sources.file_of(base)
        for module, names in self.sources.imports(path, self.top) if path is not None else ():
            for imported, alias in names:
                if name == (alias or imported) and module:
                    return f"{module}{'' if module.endswith('.') else '.'}{imported}"
        return None

    # -- all modules --------------------------------------------------------------------------------

    def imported(self, code: bytes) -> Iterator[bytes]:
        """The texts of the modules that a program imports at once, and of what packages among them hand on."""
        seen: set[str] = set()
        stack = [(self.path, list(imports_in(code)), True)]
        while stack:
            importer, imports, descend = stack.pop()
            for base in self._bases_of(imports, importer):
                data = None if base in seen else self.read(base)
                seen.add(base)
                path = self.sources.file_of(base)
                if data is None or path is None:
                    continue
                yield data
                if descend and os.path.basename(path) == f"{PACKAGE}.py":
                    stack.append((path, self.sources.imports(path, self.top), False))

    def direct(self, code: bytes) -> set[str]:
        """The paths of the modules that a program imports, and of the packages on the way to them."""
        bases = list(self._bases_of(imports_in(code), self.path))
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
            for base in dict.fromkeys(self._bases_of(imports, importer)):
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

    def _bases_of(self, imports: Iterable[Import], importer: str) -> Iterator[str]:
        """The modules that are written in imports; a name may be that of a submodule."""
        for module, names in imports:
            for name in [module] if module else [name for name, _ in names]:
                base = self.base_of(name, importer)
                if base is not None:
                    yield base
                    if module:
                        yield from filter(None, (self._place_of(base, name) for name, _ in names))

    def _place_of(self, base: str, name: str) -> str | None:
        """The module that a module hands on under a name, or of which it hands on something; else its submodule."""
        path, written = self.sources.file_of(base), self.handed_on(base, name)
        if written is not None and path is not None:
            within = written.rpartition(".")[0]
            return self.base_of(written, path) or (self.base_of(within, path) if within.strip(".") else None)
        return self.inside(base, name) if path != f"{base}.py" else None


def beside(path: str, way: str) -> str:
    """The path of what lies `way` from the folder of a file, written as that of the file is."""
    return os.path.normpath(os.path.join(os.path.dirname(path), way))
