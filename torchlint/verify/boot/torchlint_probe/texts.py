"""Runs other text in place of files, under their own names, so that a fix is tried out and no file is touched."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source
from types import CodeType, ModuleType
from typing import Any

_RUN = "__import__('torchlint_probe.texts').texts.run(globals())"
"""The code of a script, as `runpy` gets it. It leaves no name behind."""

_installed: list[Texts] = []


class Texts:
    """Texts that run in place of files: by real path, the name of a file in the folder of the verification."""

    def __init__(self, folder: str, files: Mapping[str, str]) -> None:
        self._folder = folder
        self._files = files
        self._names = {os.path.basename(path) for path in files}

    def is_replaced(self, path: str) -> bool:
        """Whether another text runs for a path. It is called for each import, so a no is fast."""
        if os.path.basename(path) not in self._names and not os.path.islink(path):
            return False
        return os.path.realpath(path) in self._files

    def read(self, path: str) -> bytes:
        """The text for a path that is replaced; that it was used is noted in the folder, and tracebacks show it."""
        name = self._files[os.path.realpath(path)]
        with open(os.path.join(self._folder, name), "rb") as file:
            text = file.read()
        with contextlib.suppress(OSError), open(os.path.join(self._folder, f"loaded-{name}"), "w"):
            pass
        linecache.cache[path] = (len(text), None, decode_source(text).splitlines(keepends=True), path)
        return text

    def install(self) -> None:
        """Come between Python and these files: where modules are loaded, and where a script is started."""
        _installed.append(self)
        sys.path_hooks.insert(0, self._script)
        self._wrap("get_data", self._data)
        self._wrap("path_stats", self._stats)

    def _wrap(self, name: str, function: Any) -> None:
        original = getattr(SourceFileLoader, name)

        def wrapper(loader: SourceFileLoader, path: str) -> Any:
            return function(path) if self.is_replaced(path) else original(loader, path)

        setattr(SourceFileLoader, name, wrapper)

    def _data(self, path: str) -> bytes:
        return self.read(path)

    def _stats(self, path: str) -> Any:
        """Without a date Python neither reads the bytecode of the file, nor writes that of the text in its place."""
        raise OSError(f"{path} is replaced")

    def _script(self, path: str) -> _Script:
        """Python and `runpy` ask whether a script is an archive; one that is replaced says so, and is its own loader.

        `-m` and imports do not come here: their entries are folders.
        """
        if not self.is_replaced(path):
            raise ImportError(f"{path} is not replaced")
        return _Script(path)


class _Script:
    """A script as an archive that holds nothing but `__main__`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin=self._path) if name == "__main__" else None  # type: ignore[arg-type]

    def get_code(self, name: str) -> CodeType:
        return compile(_RUN, "<torchlint>", "exec")


def run(namespace: dict[str, Any]) -> None:
    """Run the text of a script in its own namespace, which is then as Python makes it for a script."""
    path: str = namespace["__file__"]
    texts = next(texts for texts in _installed if texts.is_replaced(path))
    namespace.update(__spec__=None, __package__=None, __cached__=None)
    namespace["__loader__"] = SourceFileLoader(namespace["__name__"], path)
    _set_path(path, namespace["__name__"] == "__main__")
    code = compile(texts.read(path), path, "exec", dont_inherit=True)
    exec(code, namespace)


def _set_path(script: str, is_main: bool) -> None:
    """Set the path for module imports: for an archive the path itself, for a main script its folder."""
    if script not in sys.path:
        return
    place = sys.path.index(script)
    folder = [os.path.dirname(os.path.realpath(script))]
    sys.path[place : place + 1] = folder if is_main and not getattr(sys.flags, "safe_path", False) else []
