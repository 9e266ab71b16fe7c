"""Requests and notifications of the client, method by method, and their handlers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lsprotocol import types

from torchlint.server import completion, pulling
from torchlint.server.actions import (
    FIX_ALL,
    KINDS,
    Offer,
    document_of,
    edit_of,
    fix_all,
    ignores,
    is_wanted,
    quick_fixes,
)
from torchlint.server.analysis import Analysis, Shown
from torchlint.server.editor import reads_markdown, resolves_edits, versions_edits, watches_files
from torchlint.server.hover import hover
from torchlint.server.languageserver import TorchlintServer
from torchlint.server.positions import Columns

_WATCHED = ("**/*.toml", "**/.gitignore")
"""A configuration may extend a file of any name."""

# -- start ----------------------------------------------------------------------------------------------


def initialize(ls: TorchlintServer, params: types.InitializeParams) -> None:
    encoding = ls.workspace.position_encoding
    name = encoding.value if isinstance(encoding, types.PositionEncodingKind) else encoding
    ls.documents.columns = Columns(name or types.PositionEncodingKind.Utf16.value)
    ls.use(params.initialization_options)


async def initialized(ls: TorchlintServer, params: types.InitializedParams) -> None:
    await ls.warm_up()
    if watches_files(ls.client_capabilities):
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        registration = types.Registration("torchlint-configuration", method, options)
        await ls.client_register_capability_async(types.RegistrationParams([registration]))


def shutdown(ls: TorchlintServer, *_: object) -> None:
    ls.linter.close()


# -- documents ------------------------------------------------------------------------------------------


def did_open(ls: TorchlintServer, params: types.DidOpenTextDocumentParams) -> None:
    ls.documents.open(params.text_document)
    ls.linter.lint(params.text_document.uri)


def did_change(ls: TorchlintServer, params: types.DidChangeTextDocumentParams) -> None:
    ls.documents.change(params)
    ls.edited(params.text_document.uri)


def did_save(ls: TorchlintServer, params: types.DidSaveTextDocumentParams) -> None:
    ls.linter.lint(params.text_document.uri)


def did_close(ls: TorchlintServer, params: types.DidCloseTextDocumentParams) -> None:
    ls.documents.close(params.text_document.uri)
    ls.forget(params.text_document.uri)


def did_open_notebook(ls: TorchlintServer, params: types.DidOpenNotebookDocumentParams) -> None:
    ls.documents.open_notebook(params)
    ls.linter.lint(params.notebook_document.uri)


def did_change_notebook(ls: TorchlintServer, params: types.DidChangeNotebookDocumentParams) -> None:
    ls.documents.change_notebook(params)
    ls.edited(params.notebook_document.uri)


def did_save_notebook(ls: TorchlintServer, params: types.DidSaveNotebookDocumentParams) -> None:
    ls.linter.lint(params.notebook_document.uri)


def did_close_notebook(ls: TorchlintServer, params: types.DidCloseNotebookDocumentParams) -> None:
    ls.documents.close_notebook(params.notebook_document.uri)
    ls.forget(params.notebook_document.uri)


# -- configuration --------------------------------------------------------------------------------------


def did_change_configuration(ls: TorchlintServer, params: types.DidChangeConfigurationParams) -> None:
    if params.settings is not None:
        ls.use(params.settings)
    ls.lint_all()


def did_change_watched_files(ls: TorchlintServer, params: types.DidChangeWatchedFilesParams) -> None:
    ls.lint_all()


# -- requests -------------------------------------------------------------------------------------------


async def code_action(ls: TorchlintServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Nothing of a document that changes meanwhile: the client asks again."""
    analysis = await ls.latest(params.text_document.uri)
    if analysis is None:
        return []
    found = analysis.at(params.text_document.uri, params.range)
    offered = await ls.ask(analysis, lambda: _offered(analysis, found, _offer(ls), params.context))
    return offered or []


def _offered(
    analysis: Analysis, found: Sequence[Shown], offer: Offer, context: types.CodeActionContext
) -> list[types.CodeAction]:
    """The requested actions; the edits of fixes require linting."""
    actions: list[types.CodeAction] = []
    if is_wanted(types.CodeActionKind.QuickFix.value, context):
        actions += (*quick_fixes(analysis, found, offer), *ignores(analysis, found, offer))
    if is_wanted(FIX_ALL, context):
        actions += fix_all(analysis, offer)
    return actions


async def resolve(ls: TorchlintServer, action: types.CodeAction) -> types.CodeAction:
    """The action with its edits for the document as it is now; without, if it changed so that there are none."""
    uri = document_of(action)
    analysis = await ls.latest(uri) if uri is not None else None
    if analysis is not None:
        action.edit = await ls.ask(analysis, lambda: edit_of(action, analysis, _offer(ls)))
    return action


def _offer(ls: TorchlintServer) -> Offer:
    client = ls.client_capabilities
    return Offer(ls.settings.unsafe_fixes, versions_edits(client), resolves_edits(client))


async def diagnose(ls: TorchlintServer, params: types.DocumentDiagnosticParams) -> pulling.Report:
    """Empty for a cell: findings in notebooks are pushed."""
    uri = params.text_document.uri
    document = ls.documents.get(uri)
    is_sent = document is None or document.is_notebook
    return pulling.report(None if is_sent else await ls.latest(uri), uri, params.previous_result_id)


async def show_documentation(ls: TorchlintServer, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    analysis = await ls.latest(uri)
    if analysis is None:
        return None
    return hover(analysis, uri, params.position, reads_markdown(ls.client_capabilities))


async def complete(ls: TorchlintServer, params: types.CompletionParams) -> types.CompletionList | None:
    """Names of rules, in comments that suppress them."""
    uri = params.text_document.uri
    document = ls.documents.get(uri)
    buffer = next((item for item in document.buffers if item.uri == uri), None) if document is not None else None
    return completion.complete(buffer, params.position, ls.documents.columns) if buffer is not None else None


# -- all of it ------------------------------------------------------------------------------------------

Handler = Callable[..., Any]

_DOCUMENTS: dict[str, Handler] = {
    types.TEXT_DOCUMENT_DID_OPEN: did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: did_change,
    types.TEXT_DOCUMENT_DID_CLOSE: did_close,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: did_open_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: did_change_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: did_close_notebook,
}
"""In the place of pygls's own, which keep documents as well, and take a form feed for the end of a line."""
_OTHERS: dict[str, tuple[Handler, object]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.SHUTDOWN: (shutdown, None),
    types.TEXT_DOCUMENT_DID_SAVE: (did_save, None),
    types.NOTEBOOK_DOCUMENT_DID_SAVE: (did_save_notebook, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (did_change_configuration, None),
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: (did_change_watched_files, None),
    types.TEXT_DOCUMENT_CODE_ACTION: (code_action, types.CodeActionOptions(KINDS, resolve_provider=True)),
    types.CODE_ACTION_RESOLVE: (resolve, None),
    types.TEXT_DOCUMENT_DIAGNOSTIC: (diagnose, pulling.OPTIONS),
    types.TEXT_DOCUMENT_HOVER: (show_documentation, None),
    types.TEXT_DOCUMENT_COMPLETION: (complete, completion.OPTIONS),
}


def server() -> TorchlintServer:
    """A server with all its features."""
    created = TorchlintServer()
    for method, handler in _DOCUMENTS.items():
        created.protocol.fm.add_builtin_feature(method, partial(handler, created))
    for method, (handler, options) in _OTHERS.items():
        created.feature(method, options)(handler)
    return created


def serve_stdio() -> None:
    """Serve the client at standard input and output until it goes; what is printed goes to standard error."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    server().start_io(stdin, stdout)


def serve_tcp(host: str, port: int) -> None:
    """Serve one client that connects to an address, until it goes."""
    server().start_tcp(host, port)
