"""The editor's settings for torchlint, and its capabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lsprotocol import types

from torchlint.engine import registry
from torchlint.project.settings import Overrides
from torchlint.server.schema import SETTINGS
from torchlint.suggest import hint

Complain = Callable[[str], None]


@dataclass(frozen=True)
class EditorSettings:
    """The settings of the editor, which go before every configuration file."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    preview: bool = False
    unsafe_fixes: bool = True
    """Whether fixes that may change what is computed are offered."""
    debounce: int = 50
    """For how many milliseconds an edit waits for another one."""

    @classmethod
    def read(cls, sent: object, complain: Complain) -> EditorSettings:
        """The settings that a client sent, alone or under `torchlint`; what is wrong with them is left out."""
        table = sent if isinstance(sent, dict) else {}
        if isinstance(table.get("torchlint"), dict):
            table = table["torchlint"]
        for key in _unknown(table):
            complain(f"there is no setting `{key}` of the editor{hint(key, SETTINGS)}")
        default = cls()
        return cls(
            tuple(_selectors(table, "select", complain)),
            tuple(_selectors(table, "ignore", complain)),
            _flag(table, "preview", default.preview, complain),
            _flag(table, "unsafeFixes", default.unsafe_fixes, complain),
            _milliseconds(table, "debounce", default.debounce, complain),
        )

    @property
    def overrides(self) -> Overrides:
        """Files that are excluded or ignored by Git are not linted, though the editor names them."""
        return Overrides(self.select, self.ignore, preview=self.preview, force_exclude=True)


def _unknown(table: dict[str, object]) -> list[str]:
    """The settings that there are not. A table is the section of somebody else, of which clients send all."""
    return [key for key, value in table.items() if key not in SETTINGS and not isinstance(value, dict)]


def _selectors(table: dict[str, object], key: str, complain: Complain) -> Iterator[str]:
    value = table.get(key) or []
    for selector in value if isinstance(value, list) else [value]:
        try:
            registry.find(str(selector))
        except registry.UnknownRule as error:
            complain(f"the editor's setting `{key}`: {error}")
        else:
            yield str(selector)


def _flag(table: dict[str, object], key: str, default: bool, complain: Complain) -> bool:
    value = table.get(key)
    if value is None or isinstance(value, bool):
        return default if value is None else value
    complain(f"the editor's setting `{key}` must be true or false")
    return default


def _milliseconds(table: dict[str, object], key: str, default: int, complain: Complain) -> int:
    value = table.get(key)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000:
        return value
    complain(f"the editor's setting `{key}` must be a number of milliseconds")
    return default


def versions_edits(client: types.ClientCapabilities) -> bool:
    """Whether an edit may say which version of a document it is for."""
    edits = client.workspace.workspace_edit if client.workspace else None
    return bool(edits and edits.document_changes)


def resolves_edits(client: types.ClientCapabilities) -> bool:
    """Whether the client asks for the edits of an action once it is chosen."""
    actions = client.text_document.code_action if client.text_document else None
    resolved = actions.resolve_support if actions and actions.data_support else None
    return bool(resolved and "edit" in resolved.properties)


def pulls(client: types.ClientCapabilities) -> bool:
    """Whether the client asks for diagnostics, so that it must not be sent them as well."""
    return bool(client.text_document and client.text_document.diagnostic)


def refreshes(client: types.ClientCapabilities) -> bool:
    """Whether the client can be told to ask again."""
    diagnostics = client.workspace.diagnostics if client.workspace else None
    return bool(diagnostics and diagnostics.refresh_support)


def watches_files(client: types.ClientCapabilities) -> bool:
    """Whether the client can be asked to tell of changed files."""
    watched = client.workspace.did_change_watched_files if client.workspace else None
    return bool(watched and watched.dynamic_registration)


def reads_markdown(client: types.ClientCapabilities) -> bool:
    """Whether documentation may be Markdown, which it may unless the client asks for something else."""
    hover = client.text_document.hover if client.text_document else None
    return not (hover and hover.content_format) or types.MarkupKind.Markdown in hover.content_format
