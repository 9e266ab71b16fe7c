"""Which releases of PyTorch a project asks for, as its own files say.

The nearest folder upward in which one of them names `torch` decides, within the repository. What cannot be read, or
says nothing, decides nothing: that is no error, since these files are not torchlint's.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from torchlint.files import regular
from torchlint.files.checkout import real_path
from torchlint.files.sources import Sources, upward
from torchlint.project.requirement_formats import FOLDERS, READERS, Reader, readers, readers_below
from torchlint.pytorch.releases import Releases

FILES = tuple(READERS)
"""Where requirements are looked for first in a folder, in this order; then in files of like names."""
_MAX_BYTES = 1_000_000
"""No list of requirements that anybody writes is larger."""


class Requirements:
    """The PyTorch releases that the folders of a run require, each file read once."""

    def __init__(self, sources: Sources) -> None:
        """`sources` know where repositories end."""
        self._sources = sources
        self._known: dict[Path, Releases | None] = {}

    def torch(self, folder: Path) -> Releases | None:
        """The releases that the files in an absolute `folder` are written for; None where nothing says."""
        found, passed = None, []
        top = self._sources.top_of(os.path.normpath(folder))
        for above in map(Path, upward(os.path.normpath(folder))):
            passed.append(above)
            found = self._known[above] if above in self._known else self._asked_in(above)
            if found is not None or str(above) == top or above in self._known:
                break
        self._known.update(dict.fromkeys(passed, found))
        return found

    def _asked_in(self, folder: Path) -> Releases | None:
        """The requirement of the files directly in a folder: the first that says more than `torch`, else the first."""
        texts = ((_text(path), reader) for path, reader in self._files(folder))
        asked = (reader(text) for text, reader in texts if text is not None)
        found = [item for item in asked if item is not None]
        return next((item for item in found if item != Releases()), found[0] if found else None)

    def _files(self, folder: Path) -> Iterator[tuple[Path, Reader]]:
        """The files of a folder that may say so, then those of its folders that hold nothing else."""
        names = self._sources.names(str(folder))
        yield from ((folder / name, reader) for name, reader in readers(names))
        for below in sorted(names & FOLDERS.keys()):
            found = readers_below(below, self._sources.names(str(folder / below)))
            yield from ((folder / below / name, reader) for name, reader in found)


def _text(path: Path) -> str | None:
    """The text of a file that names torch."""
    with suppress(OSError, UnicodeDecodeError):
        data = regular.read(real_path(path), _MAX_BYTES)
        is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell's `>` writes
        text = data.decode("utf-16" if is_utf_16 else "utf-8-sig") if is_utf_16 or b"torch" in data else ""
        return text if "torch" in text else None
    return None
