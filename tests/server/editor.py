"""An editor for tests: a client in a thread of its own, whose methods wait for the server."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

Result = TypeVar("Result")
SERVER = (sys.executable, "-m", "torchlint", "server")
PATIENCE = 60.0


class Editor:
    """A client of `torchlint server` over stdio, and all that the server sent to it."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None, **capabilities: Any) -> None:
        self.folder = folder
        self.published: list[types.PublishDiagnosticsParams] = []
        self.messages: list[str] = []
        self.logs: list[str] = []
        self.registered: list[str] = []
        self.refreshed: list[None] = []
        self._opened: set[str] = set()
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = LanguageClient("editor", "1")
        self._listen()
        self.wait(self._client.start_io(*SERVER, env=environment, cwd=folder))
        self.capabilities = types.ClientCapabilities(**capabilities)

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(self._client.shutdown_async(None))
        self.wait(self._quit())
        assert self._client._server
        assert self._client._server.returncode == 0
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _quit(self) -> None:
        self._client.exit(None)
        stop: Any = self._client.stop  # has no types
        await stop()
        await asyncio.sleep(0)  # the transport's own farewell

    def _listen(self) -> None:
        def heard(of: list[Any], what: Callable[[Any], Any] = lambda params: params) -> Callable[[Any], None]:
            def hear(params: Any) -> None:
                with self._changed:
                    of.append(what(params))
                    self._changed.notify_all()

            return hear

        feature = self._client.feature
        feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(heard(self.published))
        feature(types.WINDOW_SHOW_MESSAGE)(heard(self.messages, lambda params: params.message))
        feature(types.WINDOW_LOG_MESSAGE)(heard(self.logs, lambda params: params.message))
        feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)(heard(self.refreshed, lambda params: None))
        feature(types.CLIENT_REGISTER_CAPABILITY)(heard(self.registered, lambda params: params.registrations[0].method))

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of work in the client's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def notify(self, method: str, params: Any) -> None:
        async def send() -> None:
            self._client.protocol.notify(method, params)

        self.wait(send())

    def request(self, method: str, params: Any) -> Any:
        async def ask() -> Any:
            return await self._client.protocol.send_request_async(method, params)

        return self.wait(ask())

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what the server sent makes something true."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), (self.published, self.messages, self.logs)

    # -- what a user does ------------------------------------------------------------------------------

    def start(self, options: Any = None) -> types.ServerCapabilities:
        params = types.InitializeParams(
            self.capabilities,
            root_uri=self.folder.as_uri(),
            initialization_options=options,
        )
        result = self.request(types.INITIALIZE, params)
        self.notify(types.INITIALIZED, types.InitializedParams())
        assert isinstance(result, types.InitializeResult)
        return result.capabilities

    def uri(self, name: str) -> str:
        return name if ":" in name else (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "python", version: int = 1) -> str:
        uri = self.uri(name)
        self._opened.add(uri)
        item = types.TextDocumentItem(uri, language, version, text)
        self.notify(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, version: int, text: str, place: types.Range | None = None) -> None:
        """Replace a range of a document, or all of it."""
        change: types.TextDocumentContentChangeEvent = types.TextDocumentContentChangeWholeDocument(text)
        if place is not None:
            change = types.TextDocumentContentChangePartial(place, text)
        document = types.VersionedTextDocumentIdentifier(version, uri)
        self.notify(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(document, [change]))

    def save(self, uri: str) -> None:
        self.notify(types.TEXT_DOCUMENT_DID_SAVE, types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def begin_anew(self, folder: Path) -> None:
        """Close all documents, go to another folder, and forget what the server has said."""
        for uri in self._opened:
            self.close(uri)
        self.hover(self.uri("nothing.py"), 0, 0)  # once it is answered, all before it is done
        self._opened.clear()
        self.folder = folder
        for heard in (self.published, self.messages, self.logs):
            heard.clear()

    def close(self, uri: str) -> None:
        self.notify(types.TEXT_DOCUMENT_DID_CLOSE, types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    # -- what a user sees ------------------------------------------------------------------------------

    def latest(self, uri: str) -> types.PublishDiagnosticsParams | None:
        return next((item for item in reversed(self.published) if item.uri == uri), None)

    def diagnostics(self, uri: str, version: int | None = 1) -> list[types.Diagnostic]:
        """The diagnostics of a document's version; version None stands for a closed document."""

        def arrived() -> bool:
            latest = self.latest(uri)
            return latest is not None and latest.version == version

        self.until(arrived)
        latest = self.latest(uri)
        assert latest
        return list(latest.diagnostics)

    def found(self, uri: str, version: int | None = 1) -> list[str]:
        """The diagnostics of a version as `code line:column-line:column`, from 0 as they are sent."""
        return [f"{item.code} {_shown(item.range)}" for item in self.diagnostics(uri, version)]

    def actions(
        self, uri: str, place: types.Range, *only: str, trigger: types.CodeActionTriggerKind | None = None
    ) -> list[types.CodeAction]:
        context = types.CodeActionContext([], list(only) or None, trigger)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        return list(self.request(types.TEXT_DOCUMENT_CODE_ACTION, params) or ())

    def resolved(self, action: types.CodeAction) -> types.CodeAction:
        """An action once it is chosen."""
        answer = self.request(types.CODE_ACTION_RESOLVE, action)
        assert isinstance(answer, types.CodeAction)
        return answer

    def pulled(self, uri: str, previous: str | None = None) -> tuple[str, list[str], str]:
        """The kind of answer, what it holds as `found` shows it, and its name."""
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri), previous_result_id=previous)
        answer = self.request(types.TEXT_DOCUMENT_DIAGNOSTIC, params)
        items = getattr(answer, "items", ())
        return answer.kind, [f"{item.code} {_shown(item.range)}" for item in items], answer.result_id

    def hover(self, uri: str, line: int, character: int) -> str:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        found = self.request(types.TEXT_DOCUMENT_HOVER, params)
        return str(found.contents.value) if found else ""

    def completions(self, uri: str, line: int, character: int) -> list[str]:
        """The labels that the server offers at a position."""
        params = types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        found = self.request(types.TEXT_DOCUMENT_COMPLETION, params)
        return [item.label for item in found.items] if found else []

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def at(line: int, start: int, end: int | None = None) -> types.Range:
    """A range of one line."""
    return types.Range(types.Position(line, start), types.Position(line, start if end is None else end))


def _shown(place: types.Range) -> str:
    return f"{place.start.line}:{place.start.character}-{place.end.line}:{place.end.character}"


def applied(action: types.CodeAction, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts after the edits of an action, by URI; columns are those of UTF-16."""
    edit = action.edit
    assert edit
    changes = dict(edit.changes or {})
    for change in edit.document_changes or ():
        assert isinstance(change, types.TextDocumentEdit)
        changes[change.text_document.uri] = [item for item in change.edits if isinstance(item, types.TextEdit)]
    after = dict(texts)
    for uri, edits in changes.items():
        data = texts[uri].encode("utf-16-le")
        for item in sorted(edits, key=lambda item: item.range.start, reverse=True):
            start, end = (_offset(data, position) for position in (item.range.start, item.range.end))
            data = data[:start] + item.new_text.encode("utf-16-le") + data[end:]
        after[uri] = data.decode("utf-16-le")
    return after


def _offset(data: bytes, position: types.Position) -> int:
    """The byte of UTF-16 text at a position; lines end with LF or CRLF here."""
    lines = data.decode("utf-16-le").split("\n")
    return len("".join(f"{line}\n" for line in lines[: position.line]).encode("utf-16-le")) + 2 * position.character
