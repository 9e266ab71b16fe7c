"""The configuration of the command line applies, and is read again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from tests.server.editor import Editor

BAD = "bad(); crash()\n"


def write(folder: Path, text: str, name: str = "torchlint.toml") -> None:
    (folder / name).write_text(text, "utf-8")


def codes(editor: Editor, uri: str, version: int = 1) -> list[str]:
    return [found.split()[0] for found in editor.found(uri, version)]


def test_the_nearest_file_applies(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path, "ignore = ['crash']\n[per-file-ignores]\n'b.py' = ['bad-call']\n")
    write(tmp_path / "sub", "[tool.torchlint]\nselect = ['suspicious']\n", "pyproject.toml")
    assert codes(editor, editor.open("a.py", BAD)) == ["XX001"]
    assert codes(editor, editor.open("b.py", BAD)) == []
    assert codes(editor, editor.open("sub/b.py", BAD)) == ["TL003"]


def test_excluded_files_are_left_alone(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, "made/\n", ".gitignore")
    write(tmp_path, "exclude = ['third_party/']\n")
    excluded = [editor.open(f"{folder}/a.py", BAD) for folder in ("third_party", "made", ".venv")]
    assert codes(editor, editor.open("a.py", "bad()\n")) == ["XX001"]
    assert [editor.latest(uri) for uri in excluded] == [None] * 3
    write(tmp_path, "")
    editor.change(excluded[0], 2, "bad()\n")
    assert codes(editor, excluded[0], 2) == ["XX001"]
    write(tmp_path, "exclude = ['third_party/']\n")
    editor.save(excluded[0])
    assert editor.found(excluded[0], None) == []


def test_a_changed_file_is_read_again(editor: Editor, tmp_path: Path) -> None:
    """Even if the client watches no files, with the next edit."""
    uri = editor.open("a.py", "bad()\n")
    assert codes(editor, uri) == ["XX001"]
    write(tmp_path, "ignore = ['bad-call']\n")
    editor.change(uri, 2, "bad() \n")
    assert codes(editor, uri, 2) == []


def test_a_client_that_watches_files(launch: Callable[..., Editor], tmp_path: Path) -> None:
    watching = types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
    editor = launch(workspace=types.WorkspaceClientCapabilities(did_change_watched_files=watching))
    editor.start()
    editor.until(lambda: editor.registered == [types.WORKSPACE_DID_CHANGE_WATCHED_FILES])
    uri = editor.open("a.py", "bad()\n")
    assert codes(editor, uri) == ["XX001"]
    write(tmp_path, "ignore = ['bad-call']\n")
    event = types.FileEvent(editor.uri("torchlint.toml"), types.FileChangeType.Created)
    editor.notify(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.DidChangeWatchedFilesParams([event]))
    editor.until(lambda: editor.published[-1].diagnostics == ())


def test_a_broken_file_is_said_once_and_the_last_good_one_stays(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path, "ignore = ['crash']\n")
    uri = editor.open("a.py", BAD)
    assert codes(editor, uri) == ["XX001"]
    write(tmp_path, "\nignore = ['cras']\n")
    for version in (2, 3):
        editor.change(uri, version, BAD)
        assert codes(editor, uri, version) == ["XX001"]
    assert codes(editor, editor.open("sub/new.py", BAD)) == ["XX001"]
    (message,) = editor.messages
    assert message.startswith(f"torchlint: {tmp_path / 'torchlint.toml'}:2: ignore: unknown rule or category `cras`")
    write(tmp_path, "ignore = ['bad-call']\n")
    editor.change(uri, 4, BAD)
    assert codes(editor, uri, 4) == ["TL003"]
    write(tmp_path, "ignore = ['cras']\n")
    editor.change(uri, 5, BAD)
    assert codes(editor, uri, 5) == ["TL003"]
    assert len(editor.messages) == 2


def test_a_broken_file_at_the_start(editor: Editor, tmp_path: Path) -> None:
    """The defaults apply."""
    write(tmp_path, "ignore = [")
    assert codes(editor, editor.open("a.py", "bad()\n")) == ["XX001"]
    assert "torchlint.toml:1: invalid TOML" in editor.messages[0]


@pytest.mark.parametrize("nested", [False, True])
def test_settings_of_the_editor(launch: Callable[..., Editor], nested: bool) -> None:
    def sent(settings: dict[str, Any]) -> dict[str, Any]:
        return {"torchlint": settings} if nested else settings

    editor = launch()
    editor.start(sent({"ignore": ["bad-call"]}))
    uri = editor.open("a.py", BAD)
    assert codes(editor, uri) == ["TL003"]
    for settings, expected in (
        ({"select": ["bad-call"]}, ["XX001"]),
        ({"select": ["correctness", "no-such-rule"], "preview": True}, ["XX001"]),
        ({}, ["TL003", "XX001"]),
    ):
        before = len(editor.published)
        params = types.DidChangeConfigurationParams(sent(settings))
        editor.notify(types.WORKSPACE_DID_CHANGE_CONFIGURATION, params)
        editor.hover(uri, 0, 0)
        assert codes(editor, uri) == expected, editor.published[before:]
    assert editor.messages == ["torchlint: the editor's setting `select`: unknown rule or category `no-such-rule`"]


def test_settings_that_make_no_sense(launch: Callable[..., Editor]) -> None:
    editor = launch()
    editor.start(
        {"select": "bad-call", "preview": "yes", "debounce": -1, "unsafeFixes": None, "other": 1, "unsafefixes": True}
    )
    assert codes(editor, editor.open("a.py", BAD)) == ["XX001"]
    assert [message.partition("setting ")[2] for message in editor.messages] == [
        "`other` of the editor",
        "`unsafefixes` of the editor; did you mean `unsafeFixes`?",
        "`preview` must be true or false",
        "`debounce` must be a number of milliseconds",
    ]


def test_sections_of_others_are_no_settings(launch: Callable[..., Editor]) -> None:
    """Some clients send all that they have, ours among it or not."""
    editor = launch()
    editor.start({"python": {"analysis": 1}})
    uri = editor.open("a.py", "bad()\n")
    params = types.DidChangeConfigurationParams({"torchlint": {"preveiw": True}, "python": 1})
    editor.notify(types.WORKSPACE_DID_CHANGE_CONFIGURATION, params)
    editor.hover(uri, 0, 0)
    assert editor.messages == ["torchlint: there is no setting `preveiw` of the editor; did you mean `preview`?"]


def test_an_extended_file_is_read_again(editor: Editor, tmp_path: Path) -> None:
    write(tmp_path, "extend = 'base.toml'\n")
    write(tmp_path, "", "base.toml")
    uri = editor.open("a.py", "bad()\n")
    assert codes(editor, uri) == ["XX001"]
    for version, (text, expected) in enumerate(
        [("ignore = ['bad-call']\n", []), ("ignor = 1", []), ("preview = true\n", ["XX001"])], 2
    ):
        write(tmp_path, text, "base.toml")
        editor.change(uri, version, "bad()\n")
        assert codes(editor, uri, version) == expected
    assert len(editor.messages) == 1 and "base.toml:1: ignor: unknown key" in editor.messages[0]


def test_the_severity_and_the_fixes_that_are_chosen(editor: Editor, tmp_path: Path) -> None:
    write(tmp_path, "unfixable = ['bad-call']\nseverity = { bad-call = 'hint' }\n")
    uri = editor.open("a.py", "bad()\n")
    (diagnostic,) = editor.diagnostics(uri)
    assert diagnostic.severity == types.DiagnosticSeverity.Hint
    assert [action.title for action in editor.actions(uri, diagnostic.range)] == ["Ignore here: bad-call"]
