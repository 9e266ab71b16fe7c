"""Which diagnostics the editor shows, so that it is told of what changed, and of what is gone."""

from __future__ import annotations

from collections.abc import Callable

from lsprotocol import types

from torchlint.server.analysis import Analysis

_Sent = types.PublishDiagnosticsParams


class Publisher:
    """Sends the diagnostics of documents, each buffer's to its own URI."""

    def __init__(self, send: Callable[[_Sent], None]) -> None:
        self._send = send
        self._sent: dict[str, dict[str, _Sent]] = {}

    def publish(self, uri: str, analysis: Analysis | None) -> None:
        """Show what an analysis found in a document, and nothing else; nothing at all if there is none."""
        wanted = {published.uri: published for published in _published(analysis)} if analysis else {}
        sent = self._sent.get(uri, {})
        for gone in sent.keys() - wanted.keys():
            self._send(_Sent(gone, []))
        for buffer, published in wanted.items():
            if sent.get(buffer) != published:
                self._send(published)
        self._sent[uri] = wanted

    def clear(self, uri: str) -> None:
        """Show nothing in a document any more."""
        self.publish(uri, None)
        self._sent.pop(uri, None)


def _published(analysis: Analysis) -> list[_Sent]:
    return [
        _Sent(buffer.uri, [item.diagnostic for item in analysis.shown if item.uri == buffer.uri], buffer.version)
        for buffer in analysis.document.buffers
    ]
