"""A Jupyter notebook: its code cells as one program, and the way back into the JSON that touches nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchlint.files.ipython import SUFFIX as SUFFIX
from torchlint.files.ipython import masked
from torchlint.lazy_pattern import LazyPattern

_SPACE = LazyPattern(r"[ \t\r\n]*")
_SURROGATE = LazyPattern(r"[\ud800-\udfff]")
_MAX_VALUES = 5_000_000
"""Lists and objects that may be in the JSON: each takes twenty times the memory of its brackets."""
_DECODER = json.JSONDecoder(strict=False)


class NotebookError(Exception):
    """A file that is not a notebook, and the line that shows it."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class Cell:
    """A code cell: its number counts all cells from 1; `text` is what its author wrote."""

    number: int
    text: str

    @property
    def program(self) -> str:
        """The cell as plain Python that ends with a newline, line by line what `written` is."""
        return masked(self.written.encode("utf-8", "replace").decode())

    @property
    def written(self) -> str:
        """The text as it is, with a newline at its end."""
        return self.text if self.text.endswith(("\n", "\r")) else self.text + "\n"


class Notebook:
    """The JSON of a notebook of format 3 or 4; raises `NotebookError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._value = _loaded(text)

    @property
    def is_python(self) -> bool:
        """Whether nothing says that its language is another one."""
        metadata = self._value.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        languages = [_member(known, "language_info", "name"), _member(known, "kernelspec", "language")]
        return all("python" in str(language).lower() for language in languages if language)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The code cells with text in them, in order."""
        return tuple(self._cells()) if self.is_python else ()

    def _cells(self) -> Iterator[Cell]:
        for number, cell in enumerate(_all_cells(self._value), 1):
            if not isinstance(cell, dict):
                raise NotebookError(f"cell {number} is not a JSON object")
            if cell.get("cell_type") != "code" or cell.get("language", "python") != "python":
                continue
            source = cell.get("source", cell.get("input", ""))
            lines = [source] if isinstance(source, str) else source
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                raise NotebookError(f"the source of cell {number} is neither text nor a list of lines")
            if any(lines):
                yield Cell(number, "".join(lines))

    # -- places in the JSON -----------------------------------------------------------------------------

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """Where the source of each cell stands in the JSON, by number."""
        text = self.text
        top = dict(_members(text, _skipped(text, 0)))
        lists = [top["cells"]] if "cells" in top else []
        for sheet in _items(text, top["worksheets"][0]) if "worksheets" in top else ():
            lists += [place for key, place in _members(text, sheet[0]) if key == "cells"]
        places = {}
        cells = (cell for start, _ in lists for cell in _items(text, start))
        for number, (start, _) in enumerate(cells, 1):
            members = dict(_members(text, start))
            if found := members.get("source", members.get("input")):
                places[number] = found
        return places

    def line(self, number: int, line: int) -> int:
        """The line of the file on which line `line` (from 1) of cell `number` stands."""
        start, _ = self._places[number]
        if self.text[start] == "[":
            starts = [
                item
                for item, end in _items(self.text, start)
                for _ in range(max(1, json.loads(self.text[item:end], strict=False).count("\n")))
            ]
            if starts:
                start = starts[min(line, len(starts)) - 1]
        return self.text.count("\n", 0, start) + 1

    # -- the way back -----------------------------------------------------------------------------------

    def replaced(self, texts: Mapping[int, str]) -> str:
        """The JSON with the source of some cells replaced, by number."""
        parts, done = [], 0
        for number in sorted(texts, key=lambda number: self._places[number]):
            start, end = self._places[number]
            parts += [self.text[done:start], self._encoded(texts[number], start, end)]
            done = end
        return "".join([*parts, self.text[done:]])

    def _encoded(self, source: str, start: int, end: int) -> str:
        """A source in the form of the value that it replaces: lines that were there before stay as they were."""
        old = self.text[start:end]
        ascii_only = old.isascii() and "\\u" in old

        def encoded(text: str) -> str:
            return json.dumps(text, ensure_ascii=ascii_only or _SURROGATE.search(text) is not None)

        if not old.startswith("["):
            return encoded(source)
        lines = re.findall(r"[^\n]*\n|[^\n]+", source)
        if not lines:
            return "[]"
        items = list(_items(self.text, start))
        raw = {json.loads(self.text[item:stop], strict=False): self.text[item:stop] for item, stop in items}
        before, after = self.text[start + 1 : items[0][0]], self.text[items[-1][1] : end - 1]
        between = self.text[items[0][1] : items[1][0]] if len(items) > 1 else "," + (before or " ")
        return f"[{before}{between.join(raw.get(line) or encoded(line) for line in lines)}{after}]"


def _loaded(text: str) -> dict[str, Any]:
    if not text.strip():
        return {"cells": []}  # a place holder, which editors open as a new notebook
    if text.count("[") + text.count("{") > _MAX_VALUES:
        raise NotebookError(f"is not a notebook: JSON of more than {_MAX_VALUES:,} lists and objects")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotebookError(f"is not a notebook: invalid JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise NotebookError("is not a notebook: JSON that is nested too deeply") from None
    except ValueError:
        raise NotebookError("is not a notebook: JSON with a number of thousands of digits") from None
    if not isinstance(value, dict) or not ("cells" in value or "worksheets" in value):
        raise NotebookError("is not a notebook: JSON without `cells`")
    return value


def _member(value: dict[str, Any], name: str, key: str) -> object:
    inner = value.get(name)
    return inner.get(key) if isinstance(inner, dict) else None


def _all_cells(value: dict[str, Any]) -> list[Any]:
    lists = [value["cells"]] if "cells" in value else []
    sheets = value.get("worksheets", [])
    if not isinstance(sheets, list) or not all(isinstance(sheet, dict) for sheet in sheets):
        raise NotebookError("is not a notebook: its `worksheets` are not a list of objects")
    lists += [sheet.get("cells", []) for sheet in sheets]
    if not all(isinstance(cells, list) for cells in lists):
        raise NotebookError("is not a notebook: its `cells` are not a list")
    return [cell for cells in lists for cell in cells]


def _skipped(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _members(text: str, at: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Name and place of each member of the object at `at`, of JSON that is known to be valid."""
    at = _skipped(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skipped(text, _skipped(text, at) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        yield key, (start, end)
        at = _next(text, end)


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """The place of each item of the list at `at`."""
    at = _skipped(text, at + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        yield at, end
        at = _next(text, end)


def _next(text: str, end: int) -> int:
    at = _skipped(text, end)
    return _skipped(text, at + 1) if text[at] == "," else at
