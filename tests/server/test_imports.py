"""The text of an open document counts, saved or not, wherever it is imported."""

from __future__ import annotations

from pathlib import Path

from tests.imports.programs import BACKWARD, loop, write
from tests.server.editor import Editor, at


def test_editing_a_helper_updates_what_imports_it(editor: Editor, tmp_path: Path) -> None:
    write(tmp_path, {"helpers.py": "def back(loss):\n    print(loss)\n"})
    helpers = editor.open("helpers.py", (tmp_path / "helpers.py").read_text())
    train = editor.open("train.py", loop())
    assert editor.found(train) == []
    editor.change(helpers, 2, BACKWARD)
    editor.until(lambda: editor.found(train) == ["TL101 7:8-7:18"])
    (diagnostic,) = editor.diagnostics(train)
    assert diagnostic.related_information
    place = diagnostic.related_information[-1].location
    assert (place.uri, place.range) == (helpers, at(1, 4, 19))
    editor.close(helpers)
    editor.until(lambda: editor.found(train) == [])  # on disk it is as it was
