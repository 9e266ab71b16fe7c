"""Diagnostics come without fixes, which are computed when the editor asks for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from tests.server.editor import Editor, applied, at
from torchlint import SourceFile, lint, select
from torchlint.engine.document_cache import DocumentCache
from torchlint.server.analysis import Analysis
from torchlint.server.documents import Buffer, Document
from torchlint.server.features import server
from torchlint.server.positions import Columns

EVERYWHERE = types.Range(types.Position(0, 0), types.Position(99, 0))
FIX_ALL = "source.fixAll.torchlint"
LOOP = """\
import torch

def train(model, loader, criterion, optimizer):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
        torch.cuda.empty_cache()
"""


@pytest.fixture
def resolving(launch: Callable[..., Editor]) -> Editor:
    """An editor that asks for the edits of an action once it is chosen."""
    support = types.CodeActionClientCapabilities(
        data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
    )
    editor = launch(text_document=types.TextDocumentClientCapabilities(code_action=support))
    editor.start()
    return editor


def analyzed(text: str, cached: DocumentCache) -> Analysis:
    document = Document("file:///train.py", (Buffer("file:///train.py", "python", 1, text),))
    return Analysis.of(document, "train.py", select(), Columns(), cached)


def test_an_analysis_parses_nothing_for_fixes() -> None:
    cached = DocumentCache()
    analysis = analyzed(LOOP, cached)
    assert [item.name for item in analysis.findings] == ["missing-zero-grad", "empty-cache-in-loop"]
    assert cached.walk is not None and "tree" not in vars(cached.walk)
    expected = [item.fix for item in lint(SourceFile.of_text("train.py", LOOP), select())]
    assert all(expected)
    assert [analysis.fixes.get(item) for item in analysis.findings] == expected
    assert cached.walk is None  # a model takes memory


def test_the_fixes_of_an_old_form() -> None:
    """The data kept of a later form is not used for them."""
    cached = DocumentCache()
    old = analyzed(LOOP, cached)
    new = analyzed(LOOP.replace("criterion", "loss"), cached)
    assert set(old.fixes) == set(old.findings) != set(new.findings) == set(new.fixes)


def test_diagnostics_hold_all_but_the_fix(editor: Editor) -> None:
    uri = editor.open("train.py", LOOP)
    source = SourceFile.of_text(str(editor.folder / "train.py"), LOOP)
    for finding, shown in zip(lint(source, select()), editor.diagnostics(uri), strict=True):
        assert finding.fix is not None
        assert shown.message == f"{finding.message}\nhelp: {finding.help}"
        data: Any = shown.data
        assert json.loads(json.dumps(data, default=vars)) == {
            "name": finding.name,
            "confidence": finding.confidence.value,
            "fingerprint": finding.fingerprint,
            "help": finding.help,
        }
        action = editor.actions(uri, shown.range, "quickfix")[0]
        assert action.title.removesuffix(" (unsafe)") == finding.fix.message
        assert action.diagnostics and list(action.diagnostics) == [shown]


def test_a_document_that_changes_or_closes_meanwhile() -> None:
    """Nothing is offered for what is not shown any more."""
    created = server()

    async def asked(question: Callable[[], object]) -> object:
        uri = "file:///train.py"
        created.documents.open(types.TextDocumentItem(uri, "python", 1, LOOP))
        document = created.documents.get(uri)
        assert document is not None
        analysis = Analysis.of(document, "train.py", select(), Columns(), DocumentCache())
        return await created.ask(analysis, question)

    def change() -> str:
        version = types.VersionedTextDocumentIdentifier(2, "file:///train.py")
        whole = types.TextDocumentContentChangeWholeDocument("")
        created.documents.change(types.DidChangeTextDocumentParams(version, [whole]))
        return "edits"

    def close() -> str:
        created.documents.close("file:///train.py")
        return "edits"

    assert asyncio.run(asked(lambda: "edits")) == "edits"
    assert asyncio.run(asked(change)) is None
    assert asyncio.run(asked(close)) is None
    created.linter.close()


def test_one_model_is_kept(tmp_path: Path) -> None:
    """That of the document that was linted last: a model takes memory, and an editor may show many documents."""
    created = server()
    uris = [(tmp_path / name).as_uri() for name in ("a.py", "b.py")]
    for uri in uris:
        created.documents.open(types.TextDocumentItem(uri, "python", 1, LOOP))
        work = created._work(uri)
        assert work is not None
        analysis = work()
    assert [created._caches[uri].walk is not None for uri in uris] == [False, True]
    assert len(analysis.fixes) == 2
    created.linter.close()


def test_edits_that_come_later(resolving: Editor) -> None:
    text = "bad()\n"
    uri = resolving.open("train.py", text)
    quick, ignore, every = resolving.actions(uri, at(0, 0))
    assert (quick.title, ignore.title, every.kind) == ("call `good`", "Ignore here: bad-call", FIX_ALL)
    assert quick.edit and not ignore.edit and not every.edit
    assert resolving.resolved(quick) == quick
    assert applied(resolving.resolved(ignore), {uri: text}) == {uri: "bad()  # torchlint: ignore[bad-call]\n"}
    assert applied(resolving.resolved(every), {uri: text}) == {uri: "good()\n"}


def test_edits_are_for_the_text_as_it_is_when_they_come(resolving: Editor) -> None:
    uri = resolving.open("train.py", "bad()\n")
    _, ignore, every = resolving.actions(uri, at(0, 0))
    text = "# moved\nbad()\n"
    resolving.change(uri, 2, text)
    assert applied(resolving.resolved(ignore), {uri: text}) == {uri: "# moved\nbad()  # torchlint: ignore[bad-call]\n"}
    assert applied(resolving.resolved(every), {uri: text}) == {uri: "# moved\ngood()\n"}
    resolving.change(uri, 3, "good()\n")
    assert not resolving.resolved(ignore).edit and not resolving.resolved(every).edit
    resolving.close(uri)
    assert not resolving.resolved(ignore).edit and not resolving.resolved(every).edit


@pytest.mark.parametrize("data", [None, 1, {}, {"uri": 1}, {"uri": "file:///nowhere.py"}, {"uri": "no uri"}])
def test_actions_of_others(resolving: Editor, data: Any) -> None:
    assert not resolving.resolved(types.CodeAction("of another server", "quickfix", data=data)).edit


def test_fix_all_is_offered_where_something_is_safe_to_fix(resolving: Editor) -> None:
    uri = resolving.open("train.py", "bad_unsafe()\n")
    assert resolving.actions(uri, EVERYWHERE, FIX_ALL) == []


def test_who_looks_for_something_to_offer_gets_quick_fixes(editor: Editor) -> None:
    """Editors do so whenever the cursor moves, and show no source actions."""
    uri = editor.open("train.py", "bad()\n")
    automatic = types.CodeActionTriggerKind.Automatic
    assert {action.kind for action in editor.actions(uri, at(0, 0), trigger=automatic)} == {"quickfix"}
    assert {action.kind for action in editor.actions(uri, at(0, 0), FIX_ALL, trigger=automatic)} == {FIX_ALL}


def test_a_rule_that_raises_in_its_fix(editor: Editor) -> None:
    """Its findings are shown, and the log says why they have no fix."""
    uri = editor.open("train.py", "broken()\nbad()\n")
    assert editor.found(uri) == ["XX003 0:0-0:8", "XX001 1:0-1:5"]
    titles = [action.title for action in editor.actions(uri, EVERYWHERE, "quickfix")]
    assert titles == ["call `good`", "Ignore here: broken-fix", "Ignore here: bad-call"]
    editor.until(lambda: any("rule broken-fix crashed: AttributeError" in log for log in editor.logs))


def test_actions_before_diagnostics(editor: Editor, tmp_path: Path) -> None:
    uri = editor.open("train.py", LOOP)
    titles = [action.title for action in editor.actions(uri, EVERYWHERE, "quickfix")]
    assert len(titles) == 4
    assert editor.actions(editor.uri("closed.py"), EVERYWHERE) == []


def test_a_document_that_is_no_python(editor: Editor) -> None:
    uri = editor.open("train.py", LOOP + "x = (\n")
    assert [found.split()[0] for found in editor.found(uri)] == ["TL001"]
    assert editor.actions(uri, EVERYWHERE) == []
    editor.change(uri, 2, LOOP)
    assert len(editor.actions(uri, EVERYWHERE, "quickfix")) == 4
