"""Diagnostics follow what the editor shows: opened, edited, saved, closed."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from tests.server.editor import Editor, at


def test_from_open_to_close(editor: Editor) -> None:
    uri = editor.open("train.py", "x = 1\nbad()\n")
    (diagnostic,) = editor.diagnostics(uri)
    assert diagnostic.message == "`bad` is bad\nhelp: call `good`"
    assert (diagnostic.code, diagnostic.source, diagnostic.range) == ("XX001", "torchlint", at(1, 0, 5))
    assert diagnostic.severity is types.DiagnosticSeverity.Error
    assert diagnostic.related_information
    assert diagnostic.related_information[0].location == types.Location(uri, at(0, 0, 5))
    editor.change(uri, 2, "good", at(1, 0, 3))
    assert editor.found(uri, 2) == []
    editor.change(uri, 3, "bad(); bad()\n")
    assert editor.found(uri, 3) == ["XX001 0:0-0:5", "XX001 0:7-0:12"]
    editor.save(uri)
    editor.close(uri)
    assert editor.found(uri, None) == []


def test_a_message_without_help_is_one_line(editor: Editor) -> None:
    (diagnostic,) = editor.diagnostics(editor.open("train.py", "x y\n"))
    assert diagnostic.code == "TL001" and "\n" not in diagnostic.message


def test_real_rules(editor: Editor) -> None:
    code = (
        "def f(model, loader, optimizer):\n"
        "    for x in loader:\n"
        "        model(x).sum().backward()\n"
        "        optimizer.step()\n"
    )
    uri = editor.open("train.py", code)
    (diagnostic,) = editor.diagnostics(uri)
    assert diagnostic.code == "TL101"
    assert diagnostic.code_description
    assert diagnostic.code_description.href.endswith("/rules/missing-zero-grad/")


def test_a_comment_without_effect_is_a_hint(editor: Editor) -> None:
    uri = editor.open("train.py", "good()\nbad()  # torchlint: ignore[bad-cal]\n")
    found, hint = editor.diagnostics(uri)
    assert found.code == "XX001"
    assert hint.message == "no rule is called `bad-cal`; did you mean `bad-call`?"
    assert (hint.severity, hint.code) == (types.DiagnosticSeverity.Hint, "TL005")
    assert hint.range.start == types.Position(1, 27)
    editor.change(uri, 2, "bad()  # torchlint: ignore[correctness]\n")
    assert editor.found(uri, 2) == []


def test_unsaved_text_is_what_counts(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("bad()\n", "utf-8")
    uri = editor.open("train.py", "good()\n")
    assert editor.found(uri) == []
    untitled = editor.open("untitled:Untitled-1", "bad()\n")
    assert editor.found(untitled) == ["XX001 0:0-0:5"]


def test_other_languages_are_left_alone(editor: Editor) -> None:
    text = editor.open("notes.md", "bad()\n", language="markdown")
    last = editor.open("train.py", "bad()\n")
    assert editor.found(last) == ["XX001 0:0-0:5"]
    assert editor.latest(text) is None
    assert editor.actions(text, at(0, 0)) == []
    assert editor.hover(text, 0, 0) == ""


def test_a_coding_comment_means_nothing(editor: Editor) -> None:
    for number, name in enumerate(("latin-1", "utf-16", "nonsense")):
        uri = editor.open(f"{number}.py", f"# coding: {name}\nx = 'é'; bad()\n")
        assert editor.found(uri) == ["XX001 1:9-1:14"]


def test_only_the_last_of_many_edits_is_reported(editor: Editor) -> None:
    uri = editor.open("train.py", "bad()\n")
    assert len(editor.diagnostics(uri)) == 1
    for version in range(2, 102):
        editor.change(uri, version, "bad()\n", at(0, 0))
    assert len(editor.diagnostics(uri, 101)) == 101
    versions = [item.version for item in editor.published]
    assert versions == sorted(versions)  # type: ignore[type-var]
    assert len(versions) < 20


def test_edits_land_where_the_client_made_them(editor: Editor) -> None:
    """A form feed, a vertical tab or U+2028 ends no line, neither here nor in an editor; CR and CRLF do."""
    uri = editor.open("train.py", "x = '\u2028'\n\x0c\nif x:\r\n    x = 1\rgood()\n")
    editor.change(uri, 2, "bad", at(4, 0, 4))
    assert editor.found(uri, 2) == ["XX001 4:0-4:5"]
    beyond = types.Range(types.Position(9, 7), types.Position(99, 99))
    editor.change(uri, 3, "\nbad()", beyond)
    assert editor.found(uri, 3) == ["XX001 4:0-4:5", "XX001 6:0-6:5"]


def test_several_changes_at_once(editor: Editor) -> None:
    uri = editor.open("train.py", "a\nb\n")
    document = types.VersionedTextDocumentIdentifier(2, uri)
    changes = [
        types.TextDocumentContentChangePartial(at(1, 0, 1), "x\ny"),
        types.TextDocumentContentChangePartial(at(2, 0, 1), "bad()"),
    ]
    editor.notify(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(document, changes))
    assert editor.found(uri, 2) == ["XX001 2:0-2:5"]
