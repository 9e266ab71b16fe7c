"""Rules complete in suppression comments, and nowhere else."""

from __future__ import annotations

import pytest
from lsprotocol import types

from tests.server.editor import Editor
from torchlint.server.completion import complete
from torchlint.server.documents import Buffer
from torchlint.server.positions import Columns


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # torchlint: ignore[",
        "x = 1  # torchlint: ignore[missing",
        "x = 1  # torchlint: ignore[TL101, ",
        "x = 1  # torchlint:ignore-file[bad-call,",
    ],
)
def test_names(editor: Editor, line: str) -> None:
    uri = editor.open("train.py", line)
    found = editor.completions(uri, 0, len(line))
    assert "missing-zero-grad" in found and "TL101" not in found


@pytest.mark.parametrize("line", ["x = 1  # noqa: ", "x = 1  # noqa: TL1", "x = 1  # NOQA: E501, TL"])
def test_codes(editor: Editor, line: str) -> None:
    uri = editor.open("train.py", line)
    assert "TL101" in editor.completions(uri, 0, len(line))


@pytest.mark.parametrize(
    "line",
    ["x = 1  ", "x = '# torchlint: ignore['", "# torchlint: ignore[missing-zero-grad] because", "# noqa", "# a [list"],
)
def test_nothing_elsewhere(editor: Editor, line: str) -> None:
    uri = editor.open("train.py", line)
    assert editor.completions(uri, 0, len(line)) == []


def test_a_name_replaces_what_is_typed() -> None:
    text = "\nlabel = '\N{PARTY POPPER}'  # torchlint: ignore[miss"
    columns = Columns("utf-16")
    end = types.Position(1, columns.units(text.splitlines()[1]))
    items = complete(Buffer("file:///train.py", "python", 1, text), end, columns).items
    edit = next(item.text_edit for item in items if item.label == "missing-zero-grad")
    assert isinstance(edit, types.TextEdit)
    assert edit.range == types.Range(types.Position(1, end.character - 4), end)


def test_an_unknown_document(editor: Editor) -> None:
    editor.start()
    assert editor.completions("file:///nowhere.py", 0, 0) == []
