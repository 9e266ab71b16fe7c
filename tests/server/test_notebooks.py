"""Notebooks: the code cells are one program, and each cell shows what is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from lsprotocol import types

from tests.server.editor import Editor, applied, at

CODE, MARKUP = types.NotebookCellKind.Code, types.NotebookCellKind.Markup
VERSIONED = types.WorkspaceClientCapabilities(
    workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
)
SYNCHRONIZED = types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities())


class Notebook:
    """A notebook that is open in an editor; cells are called by letters."""

    def __init__(self, editor: Editor, cells: dict[str, str], name: str = "train.ipynb") -> None:
        self.editor = editor
        self.uri = editor.uri(name)
        self.version = 1
        params = types.DidOpenNotebookDocumentParams(
            types.NotebookDocument(self.uri, "jupyter-notebook", 1, [self.cell(letter) for letter in cells]),
            [self.item(letter, text) for letter, text in cells.items()],
        )
        editor.notify(types.NOTEBOOK_DOCUMENT_DID_OPEN, params)

    def cell_uri(self, letter: str) -> str:
        return f"vscode-notebook-cell:/train.ipynb#{letter}"

    def cell(self, letter: str) -> types.NotebookCell:
        return types.NotebookCell(MARKUP if letter == "m" else CODE, self.cell_uri(letter))

    def item(self, letter: str, text: str) -> types.TextDocumentItem:
        return types.TextDocumentItem(self.cell_uri(letter), "markdown" if letter == "m" else "python", 1, text)

    def change(self, change: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        params = types.DidChangeNotebookDocumentParams(
            types.VersionedNotebookDocumentIdentifier(self.version, self.uri),
            types.NotebookDocumentChangeEvent(cells=change),
        )
        self.editor.notify(types.NOTEBOOK_DOCUMENT_DID_CHANGE, params)

    def edit(self, letter: str, version: int, text: str, place: types.Range) -> None:
        cell = types.VersionedTextDocumentIdentifier(version, self.cell_uri(letter))
        changes = [types.TextDocumentContentChangePartial(place, text)]
        content = types.NotebookDocumentCellContentChanges(cell, changes)
        self.change(types.NotebookDocumentCellChanges(text_content=[content]))

    def splice(self, start: int, gone: Sequence[str], new: dict[str, str]) -> None:
        array = types.NotebookCellArrayChange(start, len(gone), [self.cell(letter) for letter in new])
        opened = [self.item(letter, text) for letter, text in new.items()]
        closed = [types.TextDocumentIdentifier(self.cell_uri(letter)) for letter in gone]
        structure = types.NotebookDocumentCellChangeStructure(array, opened, closed)
        self.change(types.NotebookDocumentCellChanges(structure=structure))

    def found(self, letter: str, version: int | None = 1) -> list[str]:
        return self.editor.found(self.cell_uri(letter), version)


@pytest.fixture
def editor(launch: Callable[..., Editor]) -> Editor:
    started = launch(workspace=VERSIONED, notebook_document=SYNCHRONIZED)
    assert started.start().notebook_document_sync
    return started


def test_cells_are_one_program(editor: Editor) -> None:
    """The optimizer of one cell is stepped in another."""
    cells = {
        "a": "import torch\nnet = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(net.parameters())",
        "m": "# bad()",
        "b": "%matplotlib inline\nfor x in loader:\n    net(x).sum().backward()\n    optimizer.step()\n",
    }
    notebook = Notebook(editor, cells)
    assert notebook.found("b") == ["TL101 2:4-2:27"]
    assert notebook.found("a") == []
    assert editor.latest(notebook.cell_uri("m")) is None


def test_each_cell_has_its_own(editor: Editor) -> None:
    notebook = Notebook(editor, {"a": "x = 1\nbad()", "e": "", "b": "\n\nbad()\n"})
    assert notebook.found("a") == ["XX001 1:0-1:5"]
    assert notebook.found("b") == ["XX001 2:0-2:5"]
    assert notebook.found("e") == []
    related = editor.diagnostics(notebook.cell_uri("b"))[0].related_information
    assert related and related[0].location == types.Location(notebook.cell_uri("a"), at(0, 0, 5))
    notebook.edit("a", 2, "good", at(1, 0, 3))
    assert notebook.found("a", 2) == []
    notebook.splice(1, ["e", "b"], {"c": "bad();\tbad()", "d": "crash()"})
    assert notebook.found("b", None) == []
    assert notebook.found("c") == ["XX001 0:0-0:5", "XX001 0:7-0:12"]
    notebook.edit("c", 2, "", at(0, 0, 7))
    assert notebook.found("c", 2) == ["XX001 0:0-0:5"]
    params = types.DidSaveNotebookDocumentParams(types.NotebookDocumentIdentifier(notebook.uri))
    editor.notify(types.NOTEBOOK_DOCUMENT_DID_SAVE, params)
    gone = [types.TextDocumentIdentifier(notebook.cell_uri(letter)) for letter in "acd"]
    closed = types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(notebook.uri), gone)
    editor.notify(types.NOTEBOOK_DOCUMENT_DID_CLOSE, closed)
    for letter in "acd":
        assert notebook.found(letter, None) == []


def test_fixes_are_edits_of_the_cell(editor: Editor) -> None:
    texts = {"a": "x = 1\nbad()", "b": "bad(1)\n"}
    notebook = Notebook(editor, texts)
    action, _ = editor.actions(notebook.cell_uri("b"), at(0, 0), "quickfix")
    assert action.edit and action.edit.document_changes
    (change,) = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert (change.text_document.uri, change.text_document.version) == (notebook.cell_uri("b"), 1)
    assert change.edits == (types.TextEdit(types.Range(types.Position(0, 0), types.Position(1, 0)), "good(1)\n"),)
    (every,) = editor.actions(notebook.cell_uri("b"), at(0, 0), "source.fixAll")
    by_uri = {notebook.cell_uri(letter): text for letter, text in texts.items()}
    assert list(applied(every, by_uri).values()) == ["x = 1\ngood()", "good(1)\n"]
    assert "bad-call" in editor.hover(notebook.cell_uri("a"), 1, 1)


def test_a_broken_cell(editor: Editor) -> None:
    """It is named, and the others are linted."""
    notebook = Notebook(editor, {"a": "bad()", "b": "for for", "c": "bad()\0"}, name="untitled:Untitled-1.ipynb")
    notebook.splice(2, ["c"], {})
    assert notebook.found("a") == ["XX001 0:0-0:5"]
    assert [found.split()[0] for found in notebook.found("b")] == ["TL001"]


def test_a_notebook_without_python(editor: Editor) -> None:
    notebook = Notebook(editor, {"m": "# only words"})
    notebook.splice(1, [], {"a": "bad()"})
    assert notebook.found("a") == ["XX001 0:0-0:5"]
