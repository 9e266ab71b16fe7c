"""Diagnostics that the editor asks for: each once, and none that it was sent as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lsprotocol import types

from tests.server.editor import Editor


@pytest.fixture
def pulling(launch: Callable[..., Editor]) -> Editor:
    """An editor that asks, and can be told to ask again."""
    editor = launch(
        text_document=types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities()),
        workspace=types.WorkspaceClientCapabilities(
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
        ),
    )
    capabilities = editor.start()
    assert capabilities.diagnostic_provider
    return editor


def test_what_is_asked_for_is_not_sent(pulling: Editor) -> None:
    uri = pulling.open("a.py", "bad()\n")
    kind, found, result = pulling.pulled(uri)
    assert (kind, found) == ("full", ["XX001 0:0-0:5"])
    assert pulling.pulled(uri, result) == ("unchanged", [], result)
    pulling.change(uri, 2, "\nbad()\n")
    kind, found, newer = pulling.pulled(uri, result)
    assert (kind, found) == ("full", ["XX001 1:0-1:5"]) and newer != result
    pulling.change(uri, 3, "good()\n")
    assert pulling.pulled(uri, newer)[:2] == ("full", [])
    assert pulling.published == []


def test_the_answer_is_of_the_latest_text(pulling: Editor) -> None:
    uri = pulling.open("a.py", "good()\n")
    for version in range(2, 8):
        pulling.change(uri, version, "bad()\n" * (version % 2))
    assert pulling.pulled(uri)[1] == ["XX001 0:0-0:5"]


def test_what_is_not_linted(pulling: Editor, tmp_path: Path) -> None:
    (pulling.folder / "torchlint.toml").write_text("exclude = ['a.py']\n")
    assert pulling.pulled(pulling.open("a.py", "bad()\n"))[:2] == ("full", [])
    assert pulling.pulled(pulling.open("b.txt", "bad()\n", "plaintext"))[:2] == ("full", [])
    assert pulling.pulled(pulling.uri("never-opened.py"))[:2] == ("full", [])


def test_a_changed_configuration_has_the_editor_ask_again(pulling: Editor) -> None:
    uri = pulling.open("a.py", "bad()\n")
    assert pulling.pulled(uri)[1] != []
    settings = types.DidChangeConfigurationParams({"torchlint": {"ignore": ["bad-call"]}})
    pulling.notify(types.WORKSPACE_DID_CHANGE_CONFIGURATION, settings)
    pulling.until(lambda: bool(pulling.refreshed))
    assert pulling.pulled(uri)[1] == []


def test_who_does_not_ask_is_sent_them(editor: Editor) -> None:
    uri = editor.open("a.py", "bad()\n")
    assert editor.found(uri) == ["XX001 0:0-0:5"]
    assert editor.refreshed == []
