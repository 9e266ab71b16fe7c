"""Names of rules in suppression comments: `# torchlint: ignore[miss` and `# noqa: TL1` complete."""

from __future__ import annotations

import re

from lsprotocol import types

from torchlint.engine import registry
from torchlint.files.lines import Text, comments
from torchlint.finding import Meta
from torchlint.lazy_pattern import LazyPattern
from torchlint.server.documents import Buffer
from torchlint.server.positions import Columns

OPTIONS = types.CompletionOptions(trigger_characters=["[", ",", ":"])
_NAMES = LazyPattern(r"#\s*torchlint\s*:\s*ignore(?:-file)?\s*\[(?:[^\]#]*[,\s])?(?P<word>[\w-]*)$")
_CODES = LazyPattern(r"#\s*noqa\s*:\s*(?:[A-Z]+\d+[,\s]+)*(?P<word>[A-Z]*\d*)$", re.IGNORECASE)


def complete(buffer: Buffer, position: types.Position, columns: Columns) -> types.CompletionList:
    """The rules that fit the word before a position of a buffer; none outside of a suppression comment."""
    text = Text(buffer.text)
    offset = text.offset(columns.position(text, position))
    before = next((buffer.text[match.start() : offset] for match in comments(buffer.text) if _holds(match, offset)), "")
    by_name = _NAMES.search(before)
    match = by_name or _CODES.search(before)
    if match is None:
        return types.CompletionList(is_incomplete=False, items=[])
    start = types.Position(position.line, position.character - len(match["word"]))
    place = types.Range(start, position)
    items = [_item(meta, place, by_code=by_name is None) for meta in registry.metas()]
    return types.CompletionList(is_incomplete=False, items=items)


def _holds(comment: re.Match[str], offset: int) -> bool:
    return comment.start() < offset <= comment.end()


def _item(meta: Meta, place: types.Range, *, by_code: bool) -> types.CompletionItem:
    written, other = (meta.code, meta.name) if by_code else (meta.name, meta.code)
    return types.CompletionItem(
        label=written,
        kind=types.CompletionItemKind.EnumMember,
        detail=other,
        documentation=meta.summary,
        filter_text=written,
        text_edit=types.TextEdit(place, written),
    )
