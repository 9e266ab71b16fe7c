"""The modules of a repository, on disk or received: the contents of folders and files."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from torchlint.files import regular
from torchlint.files.fingerprint import Status, digest_of, status_of
from torchlint.lazy_pattern import LazyPattern

MAX_BYTES = 1_000_000
"""A larger file is generated data: what it defines is unknown."""
MAX_KEPT_BYTES = 50_000_000
"""Text that is kept for the next file that imports it."""
PACKAGE = "__init__"
FILE, FOLDER, NOTHING, PATH, BELOW = "file", "folder", "", "path", "below"
"""Kinds of entry under a module's name; a folder may have no file of its own. `PATH`, `BELOW`: see `Module`."""
MAX_BELOW = 2_000
"""The maximum number of modules to search for importers of one."""
MAX_FOLDERS = 2_000
"""Folders of a repository in which these are looked for, and names in each of them: the others hold data."""

_MARKS = frozenset({".git", ".hg"})
_PROJECTS = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "torchlint.toml"})
_REQUIREMENTS = frozenset({"requirements.txt", "environment.yml", "environment.yaml", "Pipfile"})
_NOT_SOURCES = frozenset("__pycache__ node_modules site-packages venv env build dist".split())
_SOURCE_FOLDERS = ("", "src", "lib")
_IMPORT = LazyPattern(rb"\n[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^()]*\)|[^\n#;]*)|import[ \t]+([^\n#;]+))")
_IMPORTED = LazyPattern(r"([.\w]+)(?:\s+as\s+(\w+))?")
_COMMENT = LazyPattern(r"#[^\n]*")

Texts = Mapping[str, "bytes | None"]
"""Contents that replace files on disk, by path; None: there is no such file."""


class Import(NamedTuple):
    """One import as written: `from module import names`, or the names of modules; each with its alias."""

    module: str
    names: list[tuple[str, str]]

    def binds(self, name: str) -> bool:
        """Whether a name may come from it: by itself, its alias, or `import *`."""
        return any(name in pair or pair[0] == "*" for pair in self.names)


class Reached(NamedTuple):
    """A module that an import leads to."""

    base: str
    as_whole: bool
    """Anything in it may be used; else only what is named in the import."""


class Handing(NamedTuple):
    """The modules that a package imports, all bases at which was looked for them, and the folders from which."""

    bases: tuple[str, ...]
    asked: set[str]
    asked_from: set[str]


def imports_in(code: bytes) -> Iterator[Import]:
    """The imports of a program, read without a parser."""
    for found in _IMPORT.finditer(b"\n" + code):
        module, names, plain = (part.decode(errors="replace") if part else "" for part in found.groups())
        written = names or plain
        pairs = _IMPORTED.findall(_COMMENT.sub("", written) if "#" in written else written)
        yield Import(module, pairs)


@dataclass(frozen=True)
class Module:
    """The entry that a run found under a module's name: for a file, its status and digest.

    Of the kind `PATH` it is where is looked for what the files of a folder import: the digest names the folders. Of the
    kind `BELOW` it is all that lies below a folder.
    """

    base: str
    top: str
    kind: str
    status: Status = ()
    digest: str = ""


class _Kin:
    """An object of its own."""


class Sources:
    """Contents of folders and files, each read once. `texts` replace files on disk.

    Another process reads them from disk again, unless they are not `on_disk`.
    """

    def __init__(self, texts: Texts | None = None, *, on_disk: bool = True, run: str = "", kin: object = None) -> None:
        self._texts: Texts = {} if texts is None else texts
        self._on_disk = on_disk
        self._run = run or os.urandom(8).hex()
        self.kin = _Kin() if kin is None else kin
        """State shared by all `Sources` of one run."""
        self._names: dict[str, frozenset[str]] = {}
        self._files: dict[str, str | None] = {}
        self._read: dict[tuple[str, str], bytes | None] = {}
        self._bytes = 0
        self._tops: dict[str, str] = {}
        self._paths: dict[tuple[str, str], tuple[str, ...]] = {}
        self._found: dict[tuple[tuple[str, ...], str], tuple[str | None, tuple[str, ...]]] = {}
        self._imports: dict[tuple[str, str], list[Import]] = {}
        self.handing: dict[tuple[str, str, tuple[str, ...]], Handing] = {}
        """Imports of packages, by path, `top` and the folders to search first."""
        self._handed_on: dict[tuple[str, str], dict[str, list[str]]] = {}
        self._modules: dict[tuple[str, str], Module] = {}
        self._below: dict[str, tuple[str, ...]] = {}
        self._unchanged: dict[Module, bool] = {}

    def again(self, texts: Texts) -> Sources:
        """The same sources, to be read again after a change."""
        return Sources(texts, on_disk=self._on_disk, kin=self.kin)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_run, (self._run, tuple(self._texts.items()), self._on_disk)

    # -- folders ------------------------------------------------------------------------------------

    def names(self, folder: str) -> frozenset[str]:
        """The names in a folder; none of what cannot be listed."""
        known = self._names.get(folder)
        if known is None:
            known = self._names[folder] = frozenset(self._list(folder))
        return known

    def _list(self, folder: str) -> set[str]:
        prefix = os.path.join(folder, "")
        below = {path[len(prefix) :]: text for path, text in self._texts.items() if path.startswith(prefix)}
        sent = {path.partition(os.sep)[0] for path, text in below.items() if text is not None}
        gone = {path for path, text in below.items() if text is None}
        try:
            return sent.union(os.listdir(folder)) - gone if self._on_disk else sent
        except (OSError, ValueError):
            return sent

    def file_of(self, base: str) -> str | None:
        """The path of a module's file; None of a folder that has none."""
        if base not in self._files:
            self._files[base] = self._find_file(base)
        return self._files[base]

    def _find_file(self, base: str) -> str | None:
        folder, name = os.path.split(base)
        if f"{PACKAGE}.py" in self.names(base):
            return os.path.join(base, f"{PACKAGE}.py")
        return f"{base}.py" if f"{name}.py" in self.names(folder) else None

    def kind(self, base: str) -> str:
        """The kind of entry under a module's name."""
        if self.file_of(base) is not None:
            return FILE
        folder, name = os.path.split(base)
        return FOLDER if name in self.names(folder) and self.names(base) else NOTHING

    def top_of(self, folder: str) -> str:
        """The folder of the repository: with `.git`, else the project's, else with its requirements, else the one that
        holds the package."""
        known = self._tops.get(folder)
        if known is None:
            known = self._tops[folder] = self._find_top(folder)
        return known

    def _find_top(self, folder: str) -> str:
        project = required = ""
        for above in upward(folder):
            names = self.names(above)
            if not names.isdisjoint(_MARKS):
                return above
            if not project and not names.isdisjoint(_PROJECTS):
                project = above
            if not required and not names.isdisjoint(_REQUIREMENTS):
                required = above
        return project or required or self._package_root(folder)

    def _package_root(self, folder: str) -> str:
        """The folder that holds the outermost package that a folder belongs to; the folder itself, if to none."""
        return next((above for above in upward(folder) if f"{PACKAGE}.py" not in self.names(above)), folder)

    def files_below(self, top: str) -> tuple[str, ...]:
        """The paths of the modules below a folder, those that lie higher first; none of what is installed or built."""
        known = self._below.get(top)
        if known is None:
            known = self._below[top] = tuple(islice(self._walk(top), MAX_BELOW))
        return known

    def _walk(self, top: str) -> Iterator[str]:
        yield from sorted(path for path, text in self._texts.items() if text is not None and _is_module(path, top))
        waiting = deque([top] if self._on_disk else [])
        folders, is_project = 0, not self.names(top).isdisjoint(_MARKS | _PROJECTS | _REQUIREMENTS)
        while waiting and folders < MAX_FOLDERS:
            folders += 1
            entries = _entries(waiting.popleft())
            yield from (entry.path for entry in entries if entry.name.endswith(".py") and entry.path not in self._texts)
            inner = (entry.path for entry in entries if _may_hold_modules(entry))
            waiting.extend(path for path in inner if is_project or f"{PACKAGE}.py" in self.names(path))

    # -- where is looked for modules ----------------------------------------------------------------

    def path_of(self, folder: str, top: str) -> tuple[str, ...]:
        """Where is looked for what the files of a folder import."""
        known = self._paths.get((folder, top))
        if known is None:
            known = self._paths[folder, top] = tuple(self._guessed_path(folder, top))
        return known

    def _guessed_path(self, folder: str, top: str) -> Iterator[str]:
        """Where Python may look: a script beside itself, a package where its outermost one lies, then the folders
        above, up to that of the repository."""
        root = self._package_root(folder)
        inner = [above for above in upward(folder) if is_below(above, root) and above != root]
        outer = [above for above in upward(root) if is_below(above, top)]
        for above in (*outer, *inner):
            for name in _SOURCE_FOLDERS:
                if not name or name in self.names(above):
                    yield os.path.join(above, name) if name else above

    def find(self, name: str, folders: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
        """The base of a top-level module that is looked for in these folders, and all that there were to look at."""
        known = self._found.get((folders, name))
        if known is None:
            known = self._found[folders, name] = self._find(name, folders)
        return known

    def _find(self, name: str, folders: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
        found, asked = None, []
        for folder in folders:
            base = os.path.join(folder, name)
            kind = self.kind(base)
            asked.append(base)
            if kind == FILE:
                return base, tuple(asked)
            if kind == FOLDER and found is None:
                found = base  # what comes later on the path goes first, if it has a file
        return found, tuple(asked)

    # -- files --------------------------------------------------------------------------------------

    def read(self, path: str, top: str) -> bytes | None:
        """The content of a file below `top`; None of what is none, is too large, or lies behind a link that leaves."""
        key = path, top
        if key not in self._read:
            if self._bytes > MAX_KEPT_BYTES:
                self._read.clear()
                self._bytes = 0
            self._read[key] = self._content(path, top)
            self._bytes += len(self._read[key] or b"")
        return self._read[key]

    def _content(self, path: str, top: str) -> bytes | None:
        if path in self._texts:
            return self._texts[path]
        if not self._on_disk or not is_below(os.path.realpath(path), os.path.realpath(top)):
            return None
        try:
            return regular.read(path, MAX_BYTES)
        except (OSError, ValueError):
            return None

    def imports(self, path: str, top: str) -> list[Import]:
        """The imports of a module, as written."""
        known = self._imports.get((path, top))
        if known is None:
            known = self._imports[path, top] = list(imports_in(self.read(path, top) or b""))
        return known

    def handed_on(self, path: str, top: str) -> dict[str, list[str]]:
        """The imports through which a module passes on names of other modules, by the name it gives them."""
        known = self._handed_on.get((path, top))
        if known is None:
            known = self._handed_on[path, top] = {}
            for module, names in self.imports(path, top):
                for imported, alias in names if module else ():
                    written = f"{module}{'' if module.endswith('.') else '.'}{imported}"
                    known.setdefault(alias or imported, []).append(written)
        return known

    # -- what is remembered -------------------------------------------------------------------------

    def module(self, base: str, top: str) -> Module:
        """The entry under a module's name, to compare with a later one."""
        known = self._modules.get((base, top))
        if known is None:
            path = self.file_of(base)
            if path is None:
                known = Module(base, top, self.kind(base))
            else:
                known = Module(base, top, FILE, self._status(path), self._digest(path, top))
            self._modules[base, top] = known
        return known

    def search_path(self, folder: str, top: str) -> Module:
        """Where is looked for what the files of a folder import, to be compared with where it is later."""
        return Module(folder, top, PATH, digest=os.pathsep.join(self.path_of(folder, top)))

    def top(self, folder: str) -> Module:
        """Which repository a folder belongs to, likewise."""
        return Module(folder, "", PATH, digest=self.top_of(folder))

    def all_below(self, top: str) -> Module:
        """The modules below a folder, likewise."""
        key = top, BELOW
        known = self._modules.get(key)
        if known is None:
            found = ((path, self._status(path) or self._digest(path, top)) for path in self.files_below(top))
            known = self._modules[key] = Module(top, top, BELOW, digest=digest_of(repr(list(found)).encode()))
        return known

    def is_unchanged(self, module: Module) -> bool:
        """Whether a module is what it was."""
        known = self._unchanged.get(module)
        if known is None:
            known = self._unchanged[module] = self._compare(module)
        return known

    def _compare(self, module: Module) -> bool:
        if module.kind == PATH:
            now = self.search_path(module.base, module.top) if module.top else self.top(module.base)
            return module == now
        if module.kind == BELOW:
            return module == self.all_below(module.base)
        path = self.file_of(module.base)
        if path is None or module.kind != FILE:
            return module.kind == self.kind(module.base)
        return (module.status == self._status(path) != ()) or module.digest == self._digest(path, module.top)

    def _digest(self, path: str, top: str) -> str:
        return digest_of(self.read(path, top) or b"")

    def _status(self, path: str) -> Status:
        """The status of a file as the system reports it; None where it is unknown."""
        try:
            return () if path in self._texts else status_of(path)
        except (OSError, ValueError):
            return ()


@lru_cache(maxsize=1)
def _of_run(run: str, texts: tuple[tuple[str, bytes | None], ...], on_disk: bool) -> Sources:
    return Sources(dict(texts), on_disk=on_disk, run=run)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries of a folder, in order; only some of a folder of data."""
    try:
        with os.scandir(folder) as found:
            return sorted(islice(found, MAX_FOLDERS), key=lambda entry: entry.name)
    except OSError:
        return []


def _may_hold_modules(entry: os.DirEntry[str]) -> bool:
    """Whether something is a folder of sources: no link, nothing hidden, and nothing that is installed or built."""
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
    return is_folder and entry.name[0] != "." and entry.name not in _NOT_SOURCES


def _is_module(path: str, top: str) -> bool:
    return path.endswith(".py") and is_below(path, top)


def upward(folder: str) -> Iterator[str]:
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
