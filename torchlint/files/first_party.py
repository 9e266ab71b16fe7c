"""The modules of a repository: where an import finds them, as Python would, and what stands in them. None is run."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from torchlint.files import regular

MAX_BYTES = 1_000_000
"""A larger file is generated data: what it defines is unknown."""
PACKAGE = "__init__"
FILE, FOLDER, NOTHING = "file", "folder", ""
"""What there is under the name of a module; a folder may have no file of its own."""

_MARKS = frozenset({".git", ".hg"})
_PROJECTS = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "torchlint.toml"})
_SOURCE_FOLDERS = ("", "src", "lib")


_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]+))", re.MULTILINE
)
_IMPORTED = re.compile(r"([.\w]+)(?:\s+as\s+(\w+))?")
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True)
class Module:
    """What there was under the name of a module: a status and a digest of its file, or (`digest` says) none."""

    base: str
    top: str
    status: tuple[int, ...]
    digest: str


class Import(NamedTuple):
    """What is written in an import: `from module import names`, or the names of modules; each with its alias."""

    module: str
    names: list[tuple[str, str]]


def imports_in(code: bytes) -> Iterator[Import]:
    """The imports of a program, read without a parser."""
    for found in _IMPORT.finditer(code):
        module, names, plain = (part.decode(errors="replace") if part else "" for part in found.groups())
        yield Import(
            module, [(item[1], item[2] or "") for item in _IMPORTED.finditer(_COMMENT.sub("", names or plain))]
        )


class _Kin:
    """An object of its own."""


class Sources:
    """What lies in folders and files: each looked at once. With `texts` these stand in the place of what is on disk.

    What is sent to another process is looked at there again, unless it is not `on_disk`.
    """

    def __init__(
        self,
        texts: Mapping[str, bytes] | None = None,
        *,
        on_disk: bool = True,
        run: str = "",
        kin: object = None,
    ) -> None:
        self._texts = {} if texts is None else texts
        self._on_disk = on_disk
        self._run = run or os.urandom(8).hex()
        self.kin = _Kin() if kin is None else kin
        """What those have in common that are looked at one after the other."""
        self._names: dict[str, frozenset[str]] = {}
        self._read: dict[str, bytes | None] = {}
        self._tops: dict[str, str] = {}
        self._modules: dict[str, Module] = {}
        self._unchanged: dict[Module, bool] = {}
        self._imports: dict[str, list[Import]] = {}
        self.paths: dict[tuple[str, str], tuple[str, ...]] = {}
        """Where is looked for what the files of a folder import, by that folder and the top."""
        self.found: dict[tuple[tuple[str, ...], str], tuple[str | None, tuple[str, ...]]] = {}
        """Modules by where they are looked for and their name: the base, and all that were asked for."""

    def again(self, texts: Mapping[str, bytes]) -> Sources:
        """The same, to be looked at again: something may have changed."""
        return Sources(texts, on_disk=self._on_disk, kin=self.kin)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_run, (self._run, tuple(self._texts.items()), self._on_disk)

    def names(self, folder: str) -> frozenset[str]:
        """The names in a folder; none of what cannot be listed."""
        known = self._names.get(folder)
        if known is None:
            known = self._names[folder] = self._list(folder)
        return known

    def _list(self, folder: str) -> frozenset[str]:
        prefix = os.path.join(folder, "")
        sent = {path[len(prefix) :].partition(os.sep)[0] for path in self._texts if path.startswith(prefix)}
        try:
            return frozenset(sent.union(os.listdir(folder))) if self._on_disk else frozenset(sent)
        except (OSError, ValueError):
            return frozenset(sent)

    def read(self, path: str, top: str) -> bytes | None:
        """The content of a file below `top`; None of what is none, is too large, or lies behind a link that leaves."""
        if path not in self._read:
            self._read[path] = self._content(path, top)
        return self._read[path]

    def _content(self, path: str, top: str) -> bytes | None:
        if path in self._texts:
            return self._texts[path]
        if not self._on_disk or not is_below(os.path.realpath(path), os.path.realpath(top)):
            return None
        try:
            return regular.read(path, MAX_BYTES)
        except (OSError, ValueError):
            return None

    def file_of(self, base: str) -> str | None:
        """The path of a module's file; None of a folder that has none."""
        folder, name = os.path.split(base)
        if f"{PACKAGE}.py" in self.names(base):
            return os.path.join(base, f"{PACKAGE}.py")
        return f"{base}.py" if f"{name}.py" in self.names(folder) else None

    def kind(self, base: str) -> str:
        """What there is under the name of a module."""
        if self.file_of(base) is not None:
            return FILE
        folder, name = os.path.split(base)
        return FOLDER if name in self.names(folder) and self.names(base) else NOTHING

    def module(self, base: str, top: str) -> Module:
        """What there is under the name of a module, to be compared with what there is later."""
        known = self._modules.get(base)
        if known is None:
            path = self.file_of(base)
            made = ((), self.kind(base)) if path is None else (self.status(path), self.digest(path, top))
            known = self._modules[base] = Module(base, top, *made)
        return known

    def imports(self, path: str, top: str) -> list[Import]:
        """What is written in the imports of a module."""
        known = self._imports.get(path)
        if known is None:
            known = self._imports[path] = list(imports_in(self.read(path, top) or b""))
        return known

    def is_unchanged(self, module: Module) -> bool:
        """Whether a module is what it was."""
        known = self._unchanged.get(module)
        if known is None:
            known = self._unchanged[module] = self._compare(module)
        return known

    def _compare(self, module: Module) -> bool:
        path = self.file_of(module.base)
        if path is None:
            return module.digest == self.kind(module.base)
        return (module.status == self.status(path) != ()) or module.digest == self.digest(path, module.top)

    def digest(self, path: str, top: str) -> str:
        """What tells the content of a file from others."""
        import hashlib  # not worth its time in a run without a cache

        return hashlib.blake2b(self.read(path, top) or b"", digest_size=16).hexdigest()

    def status(self, path: str) -> tuple[int, ...]:
        """What changes when a file is written; nothing where that is not known."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return ()
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino

    def top_of(self, folder: str) -> str:
        """The folder of the repository: with `.git`, else the project's, else the one that holds the package."""
        known = self._tops.get(folder)
        if known is None:
            known = self._tops[folder] = self._find_top(folder)
        return known

    def _find_top(self, folder: str) -> str:
        project = ""
        for above in _upward(folder):
            names = self.names(above)
            if not names.isdisjoint(_MARKS):
                return above
            if not project and not names.isdisjoint(_PROJECTS):
                project = above
        return project or self.package_root(folder)

    def package_root(self, folder: str) -> str:
        """The folder that holds the outermost package that a folder belongs to; the folder itself, if to none."""
        for above in _upward(folder):
            if f"{PACKAGE}.py" not in self.names(above):
                return above
        return folder


@lru_cache(maxsize=1)
def _of_run(run: str, texts: tuple[tuple[str, bytes], ...], on_disk: bool) -> Sources:
    return Sources(dict(texts), on_disk=on_disk, run=run)


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
    asked: set[str] = field(default_factory=set)
    """All bases at which something was looked for."""

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
        packages = (above for base in bases for above in _upward(base) if is_below(above, self.top))
        files = (self.sources.file_of(base) for base in dict.fromkeys([*bases, *packages]))
        return {path for path in files if path is not None}

    def reachable(self, code: bytes, limit: int) -> dict[str, bytes]:
        """The texts, by path, of all modules that a program imports, and that these import, up to so many bytes.

        With them come the packages that they belong to.
        """
        found: dict[str, bytes] = {}
        waiting = deque([(self.path, list(imports_in(code)))])
        while waiting and sum(map(len, found.values())) < limit:
            importer, imports = waiting.popleft()
            for base in dict.fromkeys(self._bases_of(imports, importer)):
                path, data = self.sources.file_of(base), self.read(base)
                if path is not None and data is not None and path not in found:
                    found[path] = data
                    waiting.append((path, self.sources.imports(path, self.top)))
        for folder in {above for path in (self.path, *found) for above in _upward(os.path.dirname(path))}:
            package = os.path.join(folder, f"{PACKAGE}.py")
            if is_below(folder, self.top) and f"{PACKAGE}.py" in self.sources.names(folder):
                found.setdefault(package, self.sources.read(package, self.top) or b"")
        return found

    def handed_on(self, base: str, name: str) -> str | None:
        """What a module imports under a name, as it is written there; None if that is nothing."""
        path = self.sources.file_of(base)
        for module, names in self.sources.imports(path, self.top) if path is not None else ():
            for imported, alias in names:
                if name == (alias or imported) and module:
                    return f"{module}{'' if module.endswith('.') else '.'}{imported}"
        return None

    def _bases_of(self, imports: Iterable[Import], importer: str) -> Iterator[str]:
        """The modules that are written in imports; a name may be that of a submodule."""
        for module, names in imports:
            for name in [module] if module else [name for name, _ in names]:
                base = self.base_of(name, importer)
                if base is not None:
                    yield base
                    if module and self.sources.file_of(base) != f"{base}.py":
                        yield from filter(None, (self.inside(base, name) for name, _ in names))

    def base_of(self, name: str, importer: str) -> str | None:
        """The base of a module by its dotted name, as a file imports it; None if it is none of the repository's."""
        inner = name.lstrip(".")
        parts = inner.split(".") if inner else []
        level = len(name) - len(inner)
        if level:
            base = self.relative(level, importer)
        else:
            base = None if parts[0] in self.libraries else self.absolute(parts.pop(0), importer)
        for part in parts:
            base = self.inside(base, part) if base is not None else None
        return base

    def of(self, path: str) -> Search:
        """The search of another file of the repository; what it asks for is asked for here."""
        return replace(self, path=path)

    @property
    def inside_top(self) -> str:
        """The path of the file from the folder of the repository."""
        return os.path.relpath(self.path, self.top)

    def way_to(self, path: str) -> str:
        """The way from the folder of the file to another."""
        return os.path.relpath(path, os.path.dirname(self.path))

    def absolute(self, name: str, importer: str) -> str | None:
        """The base of a top-level module, as the file at the path `importer` would import it."""
        folders = self._search_path(os.path.dirname(importer))
        known = self.sources.found.get((folders, name))
        if known is None:
            known = self.sources.found[folders, name] = self._find(folders, name)
        self.asked.update(known[1])
        return known[0]

    def _find(self, folders: tuple[str, ...], name: str) -> tuple[str | None, tuple[str, ...]]:
        """The base of a module, and all that there were to look at."""
        found, asked = None, []
        for folder in folders:
            base = os.path.join(folder, name)
            kind = self.sources.kind(base)
            asked.append(base)
            if kind == FILE:
                return base, tuple(asked)
            if kind == FOLDER and found is None:
                found = base  # what comes later on the path goes first, if it has a file
        return found, tuple(asked)

    def relative(self, level: int, importer: str) -> str | None:
        """The base of the package that `level` dots stand for in the file at the path `importer`."""
        folder = os.path.dirname(importer)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return folder if is_below(folder, self.top) else None

    def inside(self, base: str, name: str) -> str | None:
        """The base of a module of a package."""
        below = os.path.join(base, name)
        return below if self._kind(below) else None

    def read(self, base: str) -> bytes | None:
        """The text of a module; None if it has none that can be read."""
        path = self.sources.file_of(base)
        return self.sources.read(path, self.top) if path is not None else None

    def modules(self) -> tuple[Module, ...]:
        """All that was asked for, as it is; what could not be read counts as empty."""
        return tuple(self.sources.module(base, self.top) for base in sorted(self.asked))

    def _kind(self, base: str) -> str:
        self.asked.add(base)
        return self.sources.kind(base)

    def _search_path(self, folder: str) -> tuple[str, ...]:
        key = folder, self.top
        known = self.sources.paths.get(key)
        if known is None:
            known = self.sources.paths[key] = tuple(self._guessed_path(folder))
        return (*self.folders, *known)

    def _guessed_path(self, folder: str) -> Iterator[str]:
        """Where Python may look: a script beside itself, a package where its outermost one lies, then the folders
        above, up to that of the repository."""
        root = self.sources.package_root(folder)
        inner = [above for above in _upward(folder) if is_below(above, root) and above != root]
        outer = [above for above in _upward(root) if is_below(above, self.top)]
        for above in (*outer, *inner):
            for name in _SOURCE_FOLDERS:
                if not name or name in self.sources.names(above):
                    yield os.path.join(above, name) if name else above


def beside(path: str, way: str) -> str:
    """The path of what lies `way` from the folder of a file, written as that of the file is."""
    return os.path.normpath(os.path.join(os.path.dirname(path), way))


def _upward(folder: str) -> Iterator[str]:
    """A folder and all above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def is_below(path: str, top: str) -> bool:
    """Whether a path is a folder, or leads to what lies in it."""
    return path == top or path.startswith(os.path.join(top, ""))
