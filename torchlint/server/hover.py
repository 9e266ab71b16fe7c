"""Documentation where the mouse points: of a finding, or of the rule that a comment names."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from torchlint.engine import documentation, registry
from torchlint.engine.suppressions import Suppressions
from torchlint.files.source import SourceError
from torchlint.finding import Meta
from torchlint.server.analysis import Analysis


def hover(analysis: Analysis, uri: str, position: types.Position, markdown: bool) -> types.Hover | None:
    """The documentation of what is at a position of a buffer."""
    metas = dict.fromkeys(_metas(analysis, uri, position))
    if not metas:
        return None
    kind = types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText
    pages = [documentation.markdown(meta) if markdown else documentation.terminal(meta) for meta in metas]
    return types.Hover(types.MarkupContent(kind, ("\n---\n\n" if markdown else "\n").join(pages)))


def _metas(analysis: Analysis, uri: str, position: types.Position) -> Iterator[Meta]:
    known = {meta.name: meta for meta in registry.metas()}
    for shown in analysis.at(uri, types.Range(position, position)):
        if shown.finding.name in known:
            yield known[shown.finding.name]
    try:
        named = Suppressions(analysis.source).named()
    except SourceError:
        return
    for selector, span in named:
        place = analysis.place(span)
        if place.uri == uri and place.range.start <= position <= place.range.end:
            yield from (meta for meta in known.values() if selector in meta.selectors)
