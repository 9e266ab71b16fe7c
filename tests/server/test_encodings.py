"""Columns in the code units that client and server agreed on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lsprotocol import types

from tests.server.editor import Editor, at

LINE = "x = '日🔥é'; bad('🔥')"
BEFORE = {"utf-8": 17, "utf-16": 12, "utf-32": 11}
CALL = {"utf-8": 11, "utf-16": 9, "utf-32": 8}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8"], "utf-8"),
        (["utf-16"], "utf-16"),
        (["utf-32", "utf-16"], "utf-32"),
        (["ebcdic"], "utf-16"),
        (None, "utf-16"),
    ],
)
def test_columns(launch: Callable[..., Editor], offered: list[str] | None, chosen: str) -> None:
    editor = launch(general=types.GeneralClientCapabilities(position_encodings=offered))
    assert editor.start().position_encoding == chosen
    start, end = BEFORE[chosen], BEFORE[chosen] + CALL[chosen]
    uri = editor.open("train.py", LINE)
    assert editor.found(uri) == [f"XX001 0:{start}-0:{end}"]
    editor.change(uri, 2, "'; bad(", at(0, start - 3, start + 4))
    assert editor.found(uri, 2) == [f"XX001 0:{start}-0:{end}"]
    action, _ = editor.actions(uri, at(0, start), "quickfix")
    assert action.edit and action.edit.changes
    (edit,) = action.edit.changes[uri]
    assert edit.range == at(0, 0, end)
    assert edit.new_text == LINE.replace("bad", "good")
    assert "bad-call" in editor.hover(uri, 0, end - 1)
    assert editor.hover(uri, 0, start - 1) == ""


def test_a_column_inside_of_a_character(editor: Editor) -> None:
    """It is taken for the column behind it, and nothing gets lost."""
    uri = editor.open("train.py", "'🔥'\n")
    editor.change(uri, 2, "'; bad()#", at(0, 2))
    assert editor.found(uri, 2) == ["XX001 0:6-0:11"]
