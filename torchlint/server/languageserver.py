"""The server itself: what the client says is told to those whose concern it is."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from torchlint.engine import lint
from torchlint.registry import select
from torchlint.server.actions import FIX_ALL, KINDS, Offer, fix_all, is_wanted, quick_fixes
from torchlint.server.analysis import Analysis
from torchlint.server.configuration import Configuration
from torchlint.server.documents import PYTHON, Document, Documents
from torchlint.server.editor import EditorSettings, reads_markdown, versions_edits, watches_files
from torchlint.server.hover import hover
from torchlint.server.linter import Linter
from torchlint.server.positions import Columns
from torchlint.server.publisher import Publisher
from torchlint.source import SourceFile

_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithCells([types.NotebookCellLanguage(PYTHON)], "*")], save=True
)
_WATCHED = ("**/pyproject.toml", "**/torchlint.toml", "**/.gitignore")
_WARM_UP = b"import torch\nfor x in y:\n    loss.backward()\n    optimizer.step()\n"


class TorchlintServer(LanguageServer):
    """Lints what is open in one editor."""

    def __init__(self) -> None:
        super().__init__("torchlint", version("torchlint"), notebook_document_sync=_NOTEBOOKS)
        self.documents = Documents(Columns())
        self.configuration = Configuration(self.complain)
        self.settings = EditorSettings()
        self.publisher = Publisher(self.text_document_publish_diagnostics)
        self.linter = Linter(self._work, self.publisher.publish, self.log)
        self._register()

    # -- what goes wrong --------------------------------------------------------------------------------

    def complain(self, message: str) -> None:
        """Tell the user of what only the user can set right."""
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"torchlint: {message}"))

    def log(self, error: BaseException) -> None:
        """Write down what went wrong inside; the server lives on."""
        text = "".join(traceback.format_exception(error))
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, text))

    def report_server_error(self, error: Exception, source: Any) -> None:
        self.log(error)

    # -- start ------------------------------------------------------------------------------------------

    def initialize(self, params: types.InitializeParams) -> None:
        self.documents.columns = Columns(str(_value(self.workspace.position_encoding)))
        self.use(params.initialization_options)

    async def initialized(self, params: types.InitializedParams) -> None:
        await self.linter.run(_warm_up)
        if watches_files(self.client_capabilities):
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            method, options = (
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions(watchers),
            )
            registration = types.Registration("torchlint-configuration", method, options)
            await self.client_register_capability_async(types.RegistrationParams([registration]))

    def use(self, sent: object) -> None:
        """Take the settings that the client sent."""
        self.settings = EditorSettings.read(sent, self.complain)
        self.configuration.use(self.settings)

    # -- documents --------------------------------------------------------------------------------------

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self.documents.open(params.text_document)
        self.linter.lint(params.text_document.uri)

    def did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self.documents.change(params)
        self.linter.lint(params.text_document.uri, self.settings.debounce / 1000)

    def did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        self.linter.lint(params.text_document.uri)

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self.documents.close(params.text_document.uri)
        self._forget(params.text_document.uri)

    def did_open_notebook(self, params: types.DidOpenNotebookDocumentParams) -> None:
        self.documents.open_notebook(params)
        self.linter.lint(params.notebook_document.uri)

    def did_change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> None:
        self.documents.change_notebook(params)
        self.linter.lint(params.notebook_document.uri, self.settings.debounce / 1000)

    def did_save_notebook(self, params: types.DidSaveNotebookDocumentParams) -> None:
        self.linter.lint(params.notebook_document.uri)

    def did_close_notebook(self, params: types.DidCloseNotebookDocumentParams) -> None:
        self.documents.close_notebook(params.notebook_document.uri)
        self._forget(params.notebook_document.uri)

    def _forget(self, uri: str) -> None:
        self.linter.forget(uri)
        self.publisher.clear(uri)

    # -- configuration ----------------------------------------------------------------------------------

    def did_change_configuration(self, params: types.DidChangeConfigurationParams) -> None:
        if params.settings is not None:
            self.use(params.settings)
        self._lint_all()

    def did_change_watched_files(self, params: types.DidChangeWatchedFilesParams) -> None:
        self._lint_all()

    def _lint_all(self) -> None:
        for uri in self.documents:
            self.linter.lint(uri)

    # -- requests ---------------------------------------------------------------------------------------

    async def code_action(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        analysis = await self._latest(params.text_document.uri)
        if analysis is None:
            return []
        offer = Offer(self.settings.unsafe_fixes, versions_edits(self.client_capabilities))
        found = analysis.at(params.text_document.uri, params.range)
        actions: list[types.CodeAction] = []
        if is_wanted(types.CodeActionKind.QuickFix.value, params.context):
            actions += quick_fixes(analysis, found, offer)
        if is_wanted(FIX_ALL, params.context):
            if every := await self.linter.run(lambda: fix_all(analysis, offer)):
                actions.append(every)
        return actions

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        analysis = await self._latest(uri)
        if analysis is None:
            return None
        return hover(analysis, uri, params.position, reads_markdown(self.client_capabilities))

    async def _latest(self, uri: str) -> Analysis | None:
        document = self.documents.get(uri)
        return await self.linter.latest(document.uri) if document else None

    # -- linting ----------------------------------------------------------------------------------------

    def _work(self, uri: str) -> Callable[[], Analysis] | None:
        document = self.documents.get(uri)
        if document is None or not document.is_python:
            return None
        path = self._path(document)
        selection = self.configuration.selection(path)
        if selection is None:
            return None
        columns = self.documents.columns
        return lambda: Analysis.of(document, str(path), selection, columns)

    def _path(self, document: Document) -> Path:
        """Where a document is on disk; one that is nowhere has a name in the folder that is open."""
        path = to_fs_path(document.uri)
        return Path(path) if path else Path(self.workspace.root_path or Path.cwd()) / "untitled.py"

    def _register(self) -> None:
        # The framework's own handlers would keep documents as well, and take a form feed for the end of a line.
        documents: dict[str, Callable[..., Any]] = {
            types.TEXT_DOCUMENT_DID_OPEN: self.did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self.did_change,
            types.TEXT_DOCUMENT_DID_CLOSE: self.did_close,
            types.NOTEBOOK_DOCUMENT_DID_OPEN: self.did_open_notebook,
            types.NOTEBOOK_DOCUMENT_DID_CHANGE: self.did_change_notebook,
            types.NOTEBOOK_DOCUMENT_DID_CLOSE: self.did_close_notebook,
        }
        for method, handler in documents.items():
            self.protocol.fm.add_builtin_feature(method, handler)
        features: dict[str, tuple[Callable[..., Any], Any]] = {
            types.INITIALIZE: (self.initialize, None),
            types.INITIALIZED: (self.initialized, None),
            types.TEXT_DOCUMENT_DID_SAVE: (self.did_save, None),
            types.NOTEBOOK_DOCUMENT_DID_SAVE: (self.did_save_notebook, None),
            types.WORKSPACE_DID_CHANGE_CONFIGURATION: (self.did_change_configuration, None),
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: (self.did_change_watched_files, None),
            types.TEXT_DOCUMENT_CODE_ACTION: (self.code_action, types.CodeActionOptions(KINDS)),
            types.TEXT_DOCUMENT_HOVER: (self.hover, None),
        }
        for method, (handler, options) in features.items():
            self.feature(method, options)(handler)


def _value(encoding: types.PositionEncodingKind | str | None) -> str | None:
    return encoding.value if isinstance(encoding, types.PositionEncodingKind) else encoding


def _warm_up() -> None:
    """Import and compile what the first edit would have to wait for; what is there then, stays there."""
    lint(SourceFile("warm_up.py", _WARM_UP), select(["all"]))
    gc.freeze()


def serve_stdio() -> None:
    """Serve the client at standard input and output, until it goes; what is printed goes to standard error."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    TorchlintServer().start_io(stdin, stdout)


def serve_tcp(host: str, port: int) -> None:
    """Serve one client that connects to an address, until it goes."""
    TorchlintServer().start_tcp(host, port)
