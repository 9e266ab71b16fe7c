"""The server itself: who owns what, what to do when something goes wrong, and how it is started."""

from __future__ import annotations

import gc
import os
import traceback
from asyncio import StreamWriter
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from torchlint.engine.document_cache import DocumentCache
from torchlint.engine.examination import lint
from torchlint.engine.following import Following
from torchlint.engine.registry import select
from torchlint.files.source import SourceFile
from torchlint.outputs.escaping import printable
from torchlint.server.analysis import Analysis
from torchlint.server.configuration import Configuration
from torchlint.server.documents import PYTHON, Document, Documents
from torchlint.server.editor import EditorSettings, pulls, refreshes
from torchlint.server.linter import Linter
from torchlint.server.positions import Columns
from torchlint.server.publisher import Publisher
from torchlint.syntax.gc_pause import collect_new

_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithCells([types.NotebookCellLanguage(PYTHON)], "*")], save=True
)
Answer = TypeVar("Answer")
_WARM_UP = b"import torch\nfor x in y:\n    loss.backward()\n    optimizer.step()\n"


class TorchlintServer(LanguageServer):
    """Lints what is open in one editor."""

    def __init__(self) -> None:
        super().__init__("torchlint", version("torchlint"), notebook_document_sync=_NOTEBOOKS)
        self.documents = Documents(Columns())
        self.configuration = Configuration(self.complain)
        self.settings = EditorSettings()
        self.publisher = Publisher(self.text_document_publish_diagnostics)
        self._caches: dict[str, DocumentCache] = {}
        self._has_garbage = False
        """Whether something was linted since garbage was collected."""
        self._is_settled = False
        """Whether garbage was collected after all that linting imports was imported."""
        self._imports: dict[str, frozenset[str]] = {}
        """The modules that were looked for when a document was linted last."""
        self.linter = Linter(self._work, self._publish, self.log)

    # -- what goes wrong --------------------------------------------------------------------------------

    def complain(self, message: str) -> None:
        """Tell the user of what only the user can set right."""
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"torchlint: {printable(message)}"))

    def log(self, error: BaseException) -> None:
        """Write down what went wrong inside; the server lives on."""
        self._log("".join(traceback.format_exception(error)))

    def _log(self, text: str) -> None:
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, text))

    def report_server_error(self, error: Exception, source: Any) -> None:
        self.log(error)

    def shutdown(self) -> None:
        """End, with the connection: since Python 3.12 a socket server waits until those are closed."""
        if isinstance(self.protocol.writer, StreamWriter):
            self.protocol.writer.close()
        super().shutdown()  # type: ignore[no-untyped-call]

    # -- settings ---------------------------------------------------------------------------------------

    def use(self, sent: object) -> None:
        """Take the settings that the client sent."""
        self.settings = EditorSettings.read(sent, self.complain)
        self.configuration.use(self.settings)

    @property
    def pulls(self) -> bool:
        """Whether the editor asks for diagnostics of texts; those of notebooks are always sent."""
        return pulls(self.client_capabilities)

    def refresh(self) -> None:
        """Have the editor ask again for what it has open, if it asks at all."""
        if self.pulls and refreshes(self.client_capabilities):
            self.workspace_diagnostic_refresh(None, lambda _: None)

    # -- linting ----------------------------------------------------------------------------------------

    async def warm_up(self) -> None:
        """Do now what the first edit would have to wait for."""
        await self.linter.run(_warm_up)

    def edited(self, uri: str) -> None:
        """Lint a document, and those that import it, when its user pauses."""
        self.linter.begin(self._release)
        importers = self._importers(uri)
        for changed in (uri, *importers):
            self.linter.lint(changed, self.settings.debounce / 1000)
        if importers:
            self.refresh()

    def lint_all(self) -> None:
        """Lint what is open, since something else has changed."""
        for uri in self.documents:
            self.linter.lint(uri)
        self.refresh()

    def forget(self, uri: str) -> None:
        """Show nothing of a document that was closed; what imports it sees again what is on disk."""
        for importer in (importers := self._importers(uri)):
            self.linter.lint(importer)
        if importers:
            self.refresh()
        self.linter.forget(uri)
        self.publisher.clear(uri)
        self._caches.pop(uri, None)
        self._imports.pop(uri, None)

    async def ask(self, analysis: Analysis, question: Callable[[], Answer]) -> Answer | None:
        """The answer to a question that requires linting; None if the document is closed or changed before that."""

        def is_current() -> bool:
            return self.documents.get(analysis.document.uri) is analysis.document

        def answered() -> Answer | None:
            self._has_garbage = True
            return question() if is_current() else None

        answer = await self.linter.run(answered)
        while analysis.failures:
            self._log(analysis.failures.pop())
        return answer if is_current() else None

    async def latest(self, uri: str) -> Analysis | None:
        """The analysis of a document, or of a cell, as it is now; None if it is not linted."""
        document = self.documents.get(uri)
        return await self.linter.latest(document.uri) if document else None

    def _work(self, uri: str) -> Callable[[], Analysis] | None:
        document = self.documents.get(uri)
        if document is None or not document.is_python:
            return None
        path = self._path(document)
        selection = self.configuration.selection(path)
        if selection is None:
            return None
        if selection.following is not None:
            selection = replace(selection, following=self._with_open(selection.following, uri))
        cached = self._caches.setdefault(uri, DocumentCache())
        columns = self.documents.columns

        def work() -> Analysis:
            known = Analysis.known(document, str(path), selection, columns, cached)
            if known is not None:
                return known
            self._release()
            self._has_garbage = True
            return Analysis.of(document, str(path), selection, columns, cached)

        return work

    def _release(self) -> None:
        """Drop the model that is kept for fixes, and collect garbage. It belongs to the thread that lints.

        That happens as soon as a document is edited, in the pause before it is linted: least lives then.
        """
        for cached in list(self._caches.values()):
            if cached.walk is not None:
                cached.walk.release()
            cached.walk = None
        if self._has_garbage:
            self._has_garbage = False
            collect_new()
            if not self._is_settled:
                self._is_settled = True
                gc.freeze()

    def _with_open(self, following: Following, uri: str) -> Following:
        """Imports lead to what the editor shows, saved or not."""
        texts = {
            str(self._path(document)): document.buffers[0].text.encode("utf-8", "surrogatepass")
            for other in self.documents
            if other != uri and (document := self.documents.get(other)) and document.is_python
            if not document.is_notebook
        }
        return replace(following, sources=following.sources.again(texts))

    def _publish(self, uri: str, analysis: Analysis | None) -> None:
        self._imports[uri] = analysis.imports if analysis is not None else frozenset()
        document = self.documents.get(uri)
        if not self.pulls or (document is not None and document.is_notebook):
            self.publisher.publish(uri, analysis)

    def _importers(self, uri: str) -> list[str]:
        """The open documents that looked for the module that a document is."""
        path = Path(to_fs_path(uri) or os.curdir).absolute()
        names = {str(path.with_suffix("")), str(path.parent)}
        return [
            other for other in self.documents if other != uri and not names.isdisjoint(self._imports.get(other, ()))
        ]

    def _path(self, document: Document) -> Path:
        """Where a document is on disk; one that is nowhere has a name in the folder that is open."""
        path = to_fs_path(document.uri)
        return Path(path) if path else Path(self.workspace.root_path or Path.cwd()) / "untitled.py"


def _warm_up() -> None:
    """Import and compile; what is there then stays, so that the collector need not look at it again.

    From then on garbage is collected when a document is edited, and not while it is linted.
    """
    lint(SourceFile("warm_up.py", _WARM_UP), select(["all"]))
    gc.freeze()
    gc.disable()
