"""The code actions for findings, whose edits produce the promised code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lsprotocol import types

from tests.server.editor import Editor, applied, at

QUICK_FIX = "quickfix"
FIX_ALL = "source.fixAll.torchlint"
VERSIONED = types.WorkspaceClientCapabilities(
    workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
)
EMPTIED = """\
import torch

def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
{}"""
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(99, 0))


@pytest.fixture
def versioned(launch: Callable[..., Editor]) -> Editor:
    """An editor that can check the version of what it edits."""
    started = launch(workspace=VERSIONED)
    started.start()
    return started


def titles(actions: list[types.CodeAction]) -> list[str]:
    return [action.title for action in actions]


def test_a_quick_fix(versioned: Editor) -> None:
    text = "x = '🔥'; bad()\n"
    uri = versioned.open("train.py", text, version=7)
    (diagnostic,) = versioned.diagnostics(uri, 7)
    action, _ = versioned.actions(uri, at(0, 12), QUICK_FIX)
    assert (action.title, action.is_preferred, action.diagnostics) == ("call `good`", True, (diagnostic,))
    assert action.edit and action.edit.document_changes
    (change,) = action.edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document == types.OptionalVersionedTextDocumentIdentifier(uri, 7)
    assert applied(action, {uri: text}) == {uri: "x = '🔥'; good()\n"}


def test_without_versions(editor: Editor) -> None:
    uri = editor.open("train.py", "bad()")
    action, _ = editor.actions(uri, at(0, 0), QUICK_FIX)
    assert action.edit and not action.edit.document_changes
    assert applied(action, {uri: "bad()"}) == {uri: "good()"}


def test_actions_belong_to_the_text_as_it_is_now(editor: Editor) -> None:
    uri = editor.open("train.py", "good()\n")
    editor.change(uri, 2, "good()\nbad()\n")
    action, _ = editor.actions(uri, at(1, 2), QUICK_FIX)
    assert applied(action, {uri: "good()\nbad()\n"}) == {uri: "good()\ngood()\n"}
    assert editor.actions(uri, at(0, 0, 3), QUICK_FIX) == []


def test_unsafe_fixes_say_so(launch: Callable[..., Editor]) -> None:
    editor = launch()
    editor.start()
    uri = editor.open("train.py", "bad_unsafe()\n")
    action, _ = editor.actions(uri, at(0, 0), QUICK_FIX)
    assert (action.title, action.is_preferred) == ("call `good` (unsafe)", None)
    assert editor.actions(uri, EVERYWHERE, FIX_ALL) == []
    settings: Any = {"torchlint": {"unsafeFixes": False}}
    editor.notify(types.WORKSPACE_DID_CHANGE_CONFIGURATION, types.DidChangeConfigurationParams(settings))
    assert titles(editor.actions(uri, at(0, 0), QUICK_FIX)) == ["Ignore here: bad-call"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fix_all_is_safe_and_leaves_the_rest(editor: Editor, newline: str) -> None:
    text = newline.join(["bad(bad())", "keep", "bad_unsafe()", "", "bad()"])
    uri = editor.open("train.py", text)
    (action,) = editor.actions(uri, at(0, 0), FIX_ALL)
    assert action.kind == FIX_ALL
    assert applied(action, {uri: text}) == {uri: newline.join(["good(good())", "keep", "bad_unsafe()", "", "good()"])}
    assert action.edit and action.edit.changes
    assert len(action.edit.changes[uri]) == 2


@pytest.mark.parametrize(
    ("only", "kinds"),
    [
        ((), {QUICK_FIX, FIX_ALL}),
        (("source",), {FIX_ALL}),
        (("source.fixAll",), {FIX_ALL}),
        (("quickfix", "source.organizeImports"), {QUICK_FIX}),
        (("source.fixAll.other",), set()),
        (("refactor",), set()),
    ],
)
def test_kinds(editor: Editor, only: tuple[str, ...], kinds: set[str]) -> None:
    uri = editor.open("train.py", "bad()\n")
    assert {str(getattr(action.kind, "value", action.kind)) for action in editor.actions(uri, at(0, 0), *only)} == kinds


def test_a_real_fix(editor: Editor) -> None:
    uri = editor.open("train.py", EMPTIED.format("        torch.cuda.empty_cache()\n"))
    assert [found.split()[0] for found in editor.found(uri)] == ["TL401"]
    (action,) = editor.actions(uri, EVERYWHERE, FIX_ALL)
    (fixed,) = applied(action, {uri: EMPTIED.format("        torch.cuda.empty_cache()\n")}).values()
    assert fixed == EMPTIED.format("")


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("bad()\nx", "bad()  # torchlint: ignore[bad-call]\nx"),
        ("bad()  ", "bad()  # torchlint: ignore[bad-call]"),
        ("bad()  # why", "bad()  # why  # torchlint: ignore[bad-call]"),
        ("bad()  # torchlint: ignore[TL101]", "bad()  # torchlint: ignore[TL101, bad-call]"),
        ('bad("""\n# no"""\n)', 'bad("""\n# no"""  # torchlint: ignore[bad-call]\n)'),
        ("bad(\\\n    '🔥')", "bad(\\\n    '🔥')  # torchlint: ignore[bad-call]"),
        ("bad(\r\n)\r\n", "bad(  # torchlint: ignore[bad-call]\r\n)\r\n"),
        ("for x in bad():\n    x\n", "for x in bad():  # torchlint: ignore[bad-call]\n    x\n"),
    ],
)
def test_ignore_here(editor: Editor, text: str, ignored: str) -> None:
    """The comment stands where it is obeyed."""
    uri = editor.open("train.py", text)
    (diagnostic,) = editor.diagnostics(uri)
    action = editor.actions(uri, diagnostic.range, QUICK_FIX)[-1]
    assert (action.title, action.is_preferred) == ("Ignore here: bad-call", None)
    assert applied(action, {uri: text}) == {uri: ignored}
    editor.change(uri, 2, ignored)
    assert editor.found(uri, 2) == []


def test_a_useless_comment_is_removed(launch: Callable[..., Editor]) -> None:
    editor = launch()
    editor.start({"select": ["bad-call", "unused-suppression"]})
    text = "x = '🔥'  # torchlint: ignore[bad-call] old\n"
    uri = editor.open("train.py", text)
    (diagnostic,) = editor.diagnostics(uri)
    action = editor.actions(uri, diagnostic.range, QUICK_FIX)[0]
    assert (action.title, action.is_preferred) == ("remove this comment", True)
    assert applied(action, {uri: text}) == {uri: "x = '🔥'\n"}


def test_what_cannot_be_ignored(editor: Editor) -> None:
    for name, text in (("crash.py", "crash()"), ("syntax.py", "bad(")):
        uri = editor.open(name, text)
        (diagnostic,) = editor.diagnostics(uri)
        assert editor.actions(uri, diagnostic.range) == []


def test_hover(editor: Editor) -> None:
    uri = editor.open("train.py", "bad()  # torchlint: ignore[missing-zero-grad]\nx = 'missing-zero-grad'\n")
    assert editor.hover(uri, 0, 2).startswith(
        "# bad-call (XX001)\n\ncategory: correctness; severity: error; on by default\n"
    )
    assert "## Why is this bad?" in editor.hover(uri, 0, 30)
    assert editor.hover(uri, 0, 10) == ""
    assert editor.hover(uri, 1, 8) == ""


def test_hover_in_plain_text(launch: Callable[..., Editor]) -> None:
    plain = types.HoverClientCapabilities(content_format=[types.MarkupKind.PlainText])
    editor = launch(text_document=types.TextDocumentClientCapabilities(hover=plain))
    editor.start()
    uri = editor.open("train.py", "bad()\n")
    assert editor.hover(uri, 0, 0).startswith("bad-call (XX001)\n")
