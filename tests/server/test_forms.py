"""The forms of a document: each has the findings of a fresh lint, and one that comes back is not linted again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
from lsprotocol import types

from tests.benchmarks import edits, training
from tests.imports.programs import BACKWARD, loop, write
from tests.thinning import thinned
from torchlint import SourceFile, select
from torchlint.engine.document_cache import MAX_FORMS, DocumentCache
from torchlint.engine.examination import examine, without_fixes
from torchlint.engine.following import Following
from torchlint.engine.registry import Selection
from torchlint.files.sources import Sources
from torchlint.finding import Finding
from torchlint.server.analysis import Analysis
from torchlint.server.documents import Buffer, Document
from torchlint.server.positions import Columns

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*/bad.py"))
ADDED = (
    "",
    "# a comment",
    "    loss.backward()",
    "        optimizer.zero_grad()",
    "    with torch.no_grad():",
    "(",
    '"""',
)
TYPED = ("0", "x", ".", " ", "()")
STEPS = 8
URI = "untitled:train.py"


def document(text: str) -> Document:
    return Document(URI, (Buffer(URI, "python", 1, text),))


def analyzed(text: str, path: str, selection: Selection, cached: DocumentCache) -> Analysis:
    """As the server does it: a form that is known, or linted with what is kept of the one before."""
    settings = document(text), path, selection, Columns(), cached
    cached.walk = None
    return Analysis.known(*settings) or Analysis.of(*settings)


def fresh(text: str, path: str, selection: Selection) -> list[Finding]:
    found = examine(SourceFile.of_text(path, text), without_fixes(selection), always_parse=True)
    return sorted([*found.findings, *found.notices], key=lambda finding: finding.sort_key)


def edited(text: str, choice: random.Random) -> str:
    """Lines are removed, moved, doubled or added, or characters typed in one."""
    lines = text.split("\n")
    number = choice.randrange(len(lines))
    match choice.randrange(5):
        case 0:
            del lines[number : number + choice.randrange(1, 4)]
        case 1:
            lines.insert(choice.randrange(len(lines)), lines.pop(number))
        case 2:
            lines.insert(number, lines[number])
        case 3:
            lines.insert(number, choice.choice(ADDED))
        case _:
            column = choice.randrange(len(lines[number]) + 1)
            lines[number] = lines[number][:column] + choice.choice(TYPED) + lines[number][column:]
    return "\n".join(lines)


def assert_linted_as_new(text: str, choice: random.Random, selection: Selection) -> None:
    """Edits, one after the other; at times one is undone, or the file is saved."""
    cached, forms = DocumentCache(), [text]
    for _ in range(STEPS):
        text = choice.choice((edited(forms[-1], choice), edited(forms[-1], choice), choice.choice(forms[-MAX_FORMS:])))
        forms.append(text)
        assert list(analyzed(text, "train.py", selection, cached).findings) == fresh(text, "train.py", selection)


@pytest.mark.parametrize("path", thinned(FIXTURES, every=8), ids=lambda path: path.parent.name)
def test_edits_of_fixtures(path: Path) -> None:
    assert_linted_as_new(path.read_text("utf-8"), random.Random(path.parent.name), select(["all"]))


@pytest.mark.parametrize("seed", range(2))
def test_edits_of_a_training_file(seed: int) -> None:
    assert_linted_as_new(training.file(150) + training.BUG, random.Random(seed), select())


def test_a_form_that_comes_back_is_known() -> None:
    cached, selection = DocumentCache(), select()
    texts = [training.BUG + f"\nimport torch.nn.functional as F\nx = {number}\n" for number in range(MAX_FORMS + 1)]
    first, *_, last = (analyzed("import torch\n" + text, "train.py", selection, cached) for text in texts)
    assert cached.form(first.source, selection) is None, "too long ago"
    known = Analysis.known(last.document, "train.py", selection, Columns(), cached)
    assert known is not None and known.source is last.source
    assert known.findings == last.findings != ()
    assert known.fixes == last.fixes != {}


def followed(selection: Selection, sources: Sources) -> Selection:
    return replace(selection, following=Following(sources))


@pytest.mark.parametrize("name", ["edited", "opened", "removed", "rules"])
def test_what_else_decides_is_looked_at(tmp_path: Path, name: str) -> None:
    """A module that is imported has changed, or the settings have."""
    write(tmp_path, {"helpers.py": BACKWARD})
    module, path, cached, sources = tmp_path / "helpers.py", str(tmp_path / "train.py"), DocumentCache(), Sources()
    selection = followed(select(), sources)
    found = analyzed(loop(), path, selection, cached)
    assert [finding.name for finding in found.findings] == ["missing-zero-grad"]
    assert cached.form(found.source, followed(selection, sources.again({}))) is not None
    texts = {str(module): b"def back(loss):\n    pass\n"} if name == "opened" else {}
    if name == "edited":
        module.write_text("def back(loss):\n    print(loss)\n", "utf-8")
    elif name == "removed":
        module.unlink()
    now = followed(select(["all"] if name == "rules" else None), sources.again(texts))
    assert cached.form(found.source, now) is None


def test_saving_lints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    linted: list[str] = []
    lint = Analysis.of

    def counted(document: Document, *settings: object) -> Analysis:
        linted.append(document.buffers[0].text)
        return lint(document, *settings)  # type: ignore[arg-type]

    async def save() -> None:
        client = edits.Client()
        await client.open(URI, "import torch\n" + training.BUG)
        assert len(linted) == 1
        client.send(
            types.DidSaveTextDocumentNotification(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(URI)))
        )
        assert await client.server.latest(URI) is not None
        assert len(linted) == 1
        await client.edit(2, types.Position(0, 0), "#")
        assert len(linted) == 2
        client.server.linter.close()

    monkeypatch.setattr(Analysis, "of", counted)
    asyncio.run(save())
