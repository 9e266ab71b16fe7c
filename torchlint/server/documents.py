"""The editor's open texts and notebooks; each edit replaces one by its next form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lsprotocol import types

from torchlint.files.lines import Text
from torchlint.files.notebook import SUFFIX as NOTEBOOK_SUFFIX
from torchlint.files.source import SourceFile
from torchlint.finding import Edit, Position, Span
from torchlint.server.positions import Columns

PYTHON = "python"


@dataclass(frozen=True)
class Buffer:
    """One text in an editor: a file, or a cell of a notebook."""

    uri: str
    language: str
    version: int
    text: str

    @classmethod
    def opened(cls, item: types.TextDocumentItem) -> Buffer:
        return cls(item.uri, item.language_id, item.version, item.text)

    def changed(
        self, changes: Iterable[types.TextDocumentContentChangeEvent], version: int, columns: Columns
    ) -> Buffer:
        """The text after changes, one after the other; a range beyond the end is what is there of it."""
        text = self.text
        for change in changes:
            text = _changed(text, change, columns)
        return replace(self, text=text, version=version)


def _changed(old: str, change: types.TextDocumentContentChangeEvent, columns: Columns) -> str:
    if not isinstance(change, types.TextDocumentContentChangePartial):
        return change.text
    text = Text(old)
    ends = sorted(columns.position(text, end) for end in (change.range.start, change.range.end))
    return text.edited([Edit(Span(*ends), change.text)])


@dataclass(frozen=True)
class Document:
    """One form of a file or notebook: the Python in it, buffer by buffer. A new form is a new object."""

    uri: str
    buffers: tuple[Buffer, ...]
    is_notebook: bool = False

    @property
    def is_python(self) -> bool:
        """Whether there is Python in it."""
        return bool(self.buffers) and self.buffers[0].language == PYTHON

    def source(self, name: str) -> SourceFile:
        """The program that is to be linted; `name` is what a message calls it."""
        if not self.is_notebook:
            # A notebook's converted text in an editor is Python, whatever the name says.
            return SourceFile.of_text(name + ".py" * name.endswith(NOTEBOOK_SUFFIX), self.buffers[0].text)
        cells = [{"cell_type": "code", "source": buffer.text} for buffer in self.buffers]
        name += NOTEBOOK_SUFFIX * (not name.endswith(NOTEBOOK_SUFFIX))
        return SourceFile.of_text(name, json.dumps({"nbformat": 4, "cells": cells}))

    def place(self, source: SourceFile, position: Position) -> tuple[Buffer, Position]:
        """The buffer in which a position of the program stands, and the position in it."""
        place = source.place(position)
        return self.buffers[(place.cell or 1) - 1], Position(place.line, place.column)


class Documents:
    """The open documents by URI; raises `KeyError` when what was never opened is changed."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._open: dict[str, Document] = {}
        self._notebook_of: dict[str, str] = {}
        self._cells: dict[str, tuple[types.NotebookCell, ...]] = {}
        self._buffers: dict[str, Buffer] = {}
        """The texts of the cells of all notebooks."""

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._open))

    def get(self, uri: str) -> Document | None:
        """The document of this URI, or the notebook that has a cell of this URI."""
        return self._open.get(self._notebook_of.get(uri, uri))

    # -- texts ------------------------------------------------------------------------------------------

    def open(self, item: types.TextDocumentItem) -> None:
        self._open[item.uri] = Document(item.uri, (Buffer.opened(item),))

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        buffer = self._open[uri].buffers[0].changed(params.content_changes, version, self.columns)
        self._open[uri] = Document(uri, (buffer,))

    def close(self, uri: str) -> None:
        self._open.pop(uri, None)

    # -- notebooks --------------------------------------------------------------------------------------

    def open_notebook(self, params: types.DidOpenNotebookDocumentParams) -> None:
        notebook = params.notebook_document
        self._put_cells(notebook.uri, params.cell_text_documents)
        self._cells[notebook.uri] = tuple(notebook.cells)
        self._assemble(notebook.uri)

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> None:
        uri, cells = params.notebook_document.uri, params.change.cells
        if cells is None:
            return
        if cells.structure is not None:
            self._restructure(uri, cells.structure)
        if cells.data:
            changed = {cell.document: cell for cell in cells.data}
            self._cells[uri] = tuple(changed.get(cell.document, cell) for cell in self._cells[uri])
        for content in cells.text_content or ():
            cell = content.document
            self._buffers[cell.uri] = self._buffers[cell.uri].changed(content.changes, cell.version, self.columns)
        self._assemble(uri)

    def close_notebook(self, uri: str) -> None:
        self._open.pop(uri, None)
        self._cells.pop(uri, None)
        self._drop_cells(cell for cell, notebook in self._notebook_of.copy().items() if notebook == uri)

    def _restructure(self, uri: str, change: types.NotebookDocumentCellChangeStructure) -> None:
        start, gone = change.array.start, change.array.delete_count
        cells = self._cells[uri]
        self._drop_cells(closed.uri for closed in change.did_close or ())
        self._put_cells(uri, change.did_open or ())
        self._cells[uri] = (*cells[:start], *(change.array.cells or ()), *cells[start + gone :])

    def _put_cells(self, uri: str, items: Iterable[types.TextDocumentItem]) -> None:
        for item in items:
            self._buffers[item.uri] = Buffer.opened(item)
            self._notebook_of[item.uri] = uri

    def _drop_cells(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self._buffers.pop(uri, None)
            self._notebook_of.pop(uri, None)

    def _assemble(self, uri: str) -> None:
        self._open[uri] = Document(uri, _python_cells(self._cells[uri], self._buffers), is_notebook=True)


def _python_cells(cells: Iterable[types.NotebookCell], buffers: Mapping[str, Buffer]) -> tuple[Buffer, ...]:
    code = (cell.document for cell in cells if cell.kind == types.NotebookCellKind.Code)
    return tuple(buffers[uri] for uri in code if uri in buffers and buffers[uri].language == PYTHON)
