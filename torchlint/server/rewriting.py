"""From a document to one that is better: the edits that an editor has to make."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from lsprotocol import types

from torchlint.files.lines import Text
from torchlint.files.source import SourceFile
from torchlint.finding import Edit, Span
from torchlint.server.analysis import Analysis
from torchlint.server.documents import Buffer


def workspace_edit(analysis: Analysis, better: SourceFile, versioned: bool) -> types.WorkspaceEdit:
    """The edit that makes the document `better`, buffer by buffer."""
    texts = _texts(analysis, better)
    edits = [(buffer, _text_edits(analysis, buffer, text)) for buffer, text in texts if text != buffer.text]
    if not versioned:
        return types.WorkspaceEdit(changes={buffer.uri: changes for buffer, changes in edits})
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(buffer.uri, buffer.version), changes)
            for buffer, changes in edits
        ]
    )


def _texts(analysis: Analysis, better: SourceFile) -> list[tuple[Buffer, str]]:
    """The buffers, each with its text as it is to be; a cell without any is not among the cells."""
    buffers = analysis.document.buffers
    if not analysis.document.is_notebook:
        return [(buffers[0], better.data.decode())]
    texts = {cell.number: cell.text for cell in better.cells}
    return [(buffer, texts.get(number, "")) for number, buffer in enumerate(buffers, 1)]


def _text_edits(analysis: Analysis, buffer: Buffer, text: str) -> list[types.TextEdit]:
    edits = differences(analysis.text(buffer), text)
    return [types.TextEdit(analysis.range(buffer, edit.span), edit.content) for edit in edits]


def differences(old: Text, new: str) -> Iterator[Edit]:
    """Edits of whole lines that make `old` the `new` text."""
    before, after = _pieces(old), _pieces(Text(new))
    same = _common(before, after)
    rest = _common(before[same:][::-1], after[same:][::-1])
    middle = SequenceMatcher(None, before[same : len(before) - rest], after[same : len(after) - rest], autojunk=False)
    starts = [*old.starts, len(old.text)]
    for kind, first, last, start, end in middle.get_opcodes():
        if kind != "equal":
            span = Span(old.position(starts[same + first]), old.position(starts[same + last]))
            yield Edit(span, "".join(after[same + start : same + end]))


def _pieces(text: Text) -> list[str]:
    """The lines with their newlines."""
    return [text.text[start:end] for start, end in zip(text.starts, [*text.starts[1:], len(text.text)], strict=True)]


def _common(one: list[str], two: list[str]) -> int:
    """How many lines are the same from the start."""
    shorter = min(len(one), len(two))
    return next((number for number in range(shorter) if one[number] != two[number]), shorter)
