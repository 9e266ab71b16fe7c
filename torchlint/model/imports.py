"""The repository's modules that a module imports: found and parsed on first use, never run."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from weakref import WeakKeyDictionary

from torchlint.files.first_party import Search
from torchlint.files.source import SourceError, SourceFile, SyntaxProblem
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import Visit
from torchlint.syntax.reading import read
from torchlint.syntax.spare_trees import spare

MAX_BYTES = 300_000
"""Maximum size of the followed modules for one linted module; the rest stays unknown."""
SMALL_BYTES = 8_000
"""A larger module is followed only if it contains a word that matters to training."""
MODEL_BYTES = 32_000
"""A module that defines models or datasets is followed up to this size without such a word."""
MAX_REEXPORTS = 8
"""Maximum number of modules that re-export a definition."""
MAX_KEPT_BYTES = 2_000_000
"""Maximum size of texts whose trees stay in memory for the next file; a tree takes about a hundred times as much."""


_WORDS = (
    *(*triggers.BACKWARD, *triggers.CLEAR, *triggers.NO_GRAD, *triggers.EMPTY_CACHE, *triggers.ANOMALY, *triggers.CLIP),
    *(b".step(", b"optim.", b"softmax"),
)
_BASES = (b"Module)", b"Dataset)")


class Stop(Enum):
    """The reason why a module of the repository is not followed."""

    UNREAD = "cannot be read, lies outside the repository or is larger than 1 MB"
    WORDLESS = "longer than 8 kB (models: 32 kB), and has no word that matters to training"
    TOTAL = "with it there is more than 300 kB to follow"
    SYNTAX = "not Python that can be read"


class Parsed:
    """Trees of modules by their content, as many files import the same few modules."""

    def __init__(self) -> None:
        self.visit = Visit()
        self._kept: OrderedDict[tuple[str, bytes], Definitions | None] = OrderedDict()
        self._bytes = 0
        self._dropped: list[Definitions] = []
        """Modules that were dropped since the last release; the linted file may still use them."""

    def release(self) -> None:
        """Free the dropped modules, once nothing uses them any more."""
        for definitions in self._dropped:
            definitions.tree.release()
            definitions.__dict__.clear()
        self._dropped.clear()

    def definitions(self, path: str, data: bytes) -> Definitions | None:
        """The definitions in a module's text; None if it is not valid Python."""
        key = path, data
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        found = self._kept[key] = self._parse(path, data)
        self._bytes += len(data)
        while self._bytes > MAX_KEPT_BYTES and len(self._kept) > 1:
            (_, old), dropped = self._kept.popitem(last=False)
            self._bytes -= len(old)
            if dropped is not None:
                self._dropped.append(dropped)
        return found

    def _parse(self, path: str, data: bytes) -> Definitions | None:
        try:
            tree = spare.take(path, data) or read(SourceFile(path, data))
        except (SyntaxProblem, SourceError, RecursionError, MemoryError):
            return None
        tree.stand_elsewhere(self.visit)
        return Definitions(tree)


_PARSED: WeakKeyDictionary[object, Parsed] = WeakKeyDictionary()


@dataclass(frozen=True)
class Target:
    """The meaning of a qualified name: a definition in a module of the repository, or (`rest` empty) that module."""

    base: str
    definitions: Definitions | None
    """None for a folder without a file, and for a file that is not Python."""
    rest: tuple[str, ...] = ()


@dataclass
class Imports:
    """Follows the imports of one module, and theirs in turn."""

    search: Search
    own: Definitions | None = None
    """The definitions of the linted module, which other modules may import."""
    training: dict[tuple[Definitions, int], set[str]] = field(default_factory=dict)
    """The names of a module's training functions, found within a number of modules."""
    stops: dict[str, Stop | None] = field(default_factory=dict)
    """The requested modules by path, with the reason for not following them; None if followed."""
    _bytes: int = 0
    _by_base: dict[str, Definitions | None] = field(default_factory=dict)
    _pending_stars: set[tuple[Definitions, str]] = field(default_factory=set)
    """The names being looked up through `import *`, as modules may import each other."""
    _known: dict[tuple[Definitions, str], ClassInfo | FunctionInfo | None] = field(default_factory=dict)

    @property
    def parsed(self) -> Parsed:
        """The trees shared by the files of this run."""
        return _PARSED.setdefault(self.search.sources.kin, Parsed())

    def target(self, qualified: str, importer: Definitions) -> Target | None:
        """The meaning of a qualified name in a module; None if it is not of the repository or cannot be followed."""
        base, parts = self.search.start(qualified, self._path_of(importer))
        return None if base is None else self._followed(self._descend(base, parts))

    def member(self, base: str, name: str) -> Target | None:
        """The meaning of a name in a module of the repository."""
        return self._followed(self._descend(base, [name]))

    def _followed(self, target: Target) -> Target | None:
        """The definition behind a target, through packages that re-export it."""
        for _ in range(MAX_REEXPORTS):
            handed_on = self._handed_on(target)
            if handed_on is None:
                return target
            base, parts = self.search.start(*handed_on)
            if base is None:
                return None
            target = self._descend(base, parts)
        return None

    def _descend(self, base: str, parts: list[str]) -> Target:
        """Follow a dotted name from a module into its submodules, if it does not define the name itself."""
        for number, part in enumerate(parts):
            definitions = self._definitions(base)
            if definitions is not None and definitions.binds(part):
                return Target(base, definitions, tuple(parts[number:]))
            below = self.search.inside(base, part)
            if below is None:
                return Target(base, definitions, tuple(parts[number:]))
            base = below
        return Target(base, self._definitions(base))

    def _handed_on(self, target: Target) -> tuple[str, str] | None:
        """The qualified name that an unparsed package imports under a name, and the package's path."""
        path = self.search.sources.file_of(target.base)
        if target.definitions is not None or not target.rest or path is None:
            return None
        imported = self.search.handed_on(target.base, target.rest[0])
        return None if imported is None else (".".join([imported, *target.rest[1:]]), path)

    def defined(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        """The class or function that a qualified name stands for in a module, followed through re-exports."""
        key = importer, qualified
        if key not in self._known:
            self._known[key] = self._look_up(qualified, importer)
        return self._known[key]

    def anywhere(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        return self.defined(qualified, importer)

    def _look_up(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        for _ in range(MAX_REEXPORTS):
            target = self.target(qualified, importer)
            if target is None or target.definitions is None or len(target.rest) != 1:
                return None
            importer, name = target.definitions, target.rest[0]
            found = importer.class_names.get(name) or importer.function_named(name)
            if found is not None:
                return found
            imported = importer.imported(name)
            if imported is None:
                return None
            qualified = imported
        return None

    def importers(self, name: str, words: tuple[bytes, ...]) -> Iterator[Definitions]:
        """The modules that import the linted one and contain a name and one of some words: they may call it."""
        return self._all_parsed(self.search.importers(name.encode(), words))

    def mentioning(self, words: tuple[bytes, ...]) -> Iterator[Definitions]:
        """The other modules of the repository that contain one of some words."""
        return self._all_parsed(self.search.mentioning(words))

    def _all_parsed(self, files: Iterable[tuple[str, bytes]]) -> Iterator[Definitions]:
        return filter(None, (self.parsed.definitions(path, data) for path, data in files))

    def beside(self, definitions: Definitions, words: Iterable[str]) -> Iterator[Definitions]:
        """The modules in a module's folder and below that contain one of these words."""
        for base in self.search.holding(os.path.dirname(self._path_of(definitions)), [item.encode() for item in words]):
            found = self._definitions(base)
            if found is not None:
                yield found

    def imported_by_star(self, module: str, name: str, importer: Definitions) -> str | None:
        """The qualified name behind a name that `from module import *` binds; None if it binds no such name."""
        target = self.target(module, importer)
        if name.startswith("_") or target is None or target.definitions is None or target.rest:
            return None
        handed_on = self._imported_as(name, target.definitions)
        if handed_on is None:
            return None
        is_of_a_package = handed_on and handed_on[0] != "." and self.target(handed_on, target.definitions) is None
        return handed_on if is_of_a_package else f"{module}.{name}"

    def _imported_as(self, name: str, module: Definitions) -> str | None:
        """The qualified name a module imports under a name, perhaps by `*`; empty: it defines it, None: neither."""
        if module.binds(name):
            return module.imports.get(name, "")
        if not module.scopes.star_imports or (module, name) in self._pending_stars:
            return None
        self._pending_stars.add((module, name))
        found = module.imported(name)
        self._pending_stars.discard((module, name))
        return found

    @property
    def visit(self) -> Visit:
        """A context in which the interpretation runs while it is inside other modules."""
        return self.parsed.visit

    def followed(self) -> list[Definitions]:
        """The modules followed so far."""
        return [definitions for definitions in self._by_base.values() if definitions is not None]

    def close(self) -> None:
        """Release data that is no longer needed."""
        for definitions in self._by_base.values():
            if definitions is not None:
                definitions.follow(None)

    def modules(self, importer: Definitions, words: tuple[bytes, ...]) -> list[Definitions]:
        """The modules that a module imports directly and that contain one of these words."""
        names = [*importer.scopes.anywhere().values(), *importer.scopes.star_imports]
        bases = dict.fromkeys(base for name in names for base in self._bases(name, importer))
        texts = {base: self.search.read(base) or b"" for base in bases}
        found = [self._definitions(base) for base, text in texts.items() if any(word in text for word in words)]
        return [definitions for definitions in found if definitions is not None and definitions is not importer]

    def _bases(self, qualified: str, importer: Definitions) -> Iterator[str]:
        """The modules on the path to the target of a qualified name."""
        name = qualified.lstrip(".")
        parts = name.split(".") if name else []
        dots = qualified[: len(qualified) - len(name)]
        for end in range(len(parts) + 1):
            written = dots + ".".join(parts[:end])
            base = self.search.base_of(written, self._path_of(importer)) if written else None
            if base is not None:
                yield base

    def _path_of(self, definitions: Definitions) -> str:
        return self.search.path if definitions is self.own else definitions.tree.source.path

    def _definitions(self, base: str) -> Definitions | None:
        if base not in self._by_base:
            found = self._by_base[base] = self._read(base)
            if found is not None:
                found.follow(self)
        return self._by_base[base]

    def _read(self, base: str) -> Definitions | None:
        path = self.search.sources.file_of(base)
        if path is None or path == self.search.path:
            return self.own if path else None
        data = self.search.read(base)
        self.stops[path] = self._stop(data)
        if data is None or self.stops[path]:
            return None
        self._bytes += len(data)
        found = self.parsed.definitions(path, data)
        self.stops[path] = None if found is not None else Stop.SYNTAX
        return found

    def _stop(self, data: bytes | None) -> Stop | None:
        """The reason why a module with this text is not parsed."""
        if data is None:
            return Stop.UNREAD
        if not _is_worth_it(data):
            return Stop.WORDLESS
        return Stop.TOTAL if self._bytes + len(data) > MAX_BYTES else None


def _is_worth_it(data: bytes) -> bool:
    if len(data) <= SMALL_BYTES or any(word in data for word in _WORDS):
        return True
    return len(data) <= MODEL_BYTES and any(word in data for word in _BASES)


@dataclass(frozen=True)
class Bases:
    """The inherited classes of a module, for runs that do not follow imports otherwise."""

    imports: Imports

    @property
    def visit(self) -> Visit:
        return self.imports.visit

    def defined(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        if qualified.rpartition(".")[2] not in importer.names_of_bases:
            return None
        found = self.imports.defined(qualified, importer)
        return found if isinstance(found, ClassInfo) else None

    def anywhere(self, qualified: str, importer: Definitions) -> ClassInfo | FunctionInfo | None:
        return self.imports.defined(qualified, importer)

    def imported_by_star(self, module: str, name: str, importer: Definitions) -> str | None:
        return self.imports.imported_by_star(module, name, importer)

    def followed(self) -> list[Definitions]:
        return self.imports.followed()
