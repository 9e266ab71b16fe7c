"""Roles of text and the colours they have on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Paint = Callable[[str, str], str]
"""Renders a text in a role."""

_STYLES: Mapping[str, Mapping[str, Any]] = {
    "title": {"bold": True},
    "heading": {"bold": True, "underline": True},
    "code": {"fg": "cyan"},
    "dim": {"dim": True},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "information": {"fg": "blue", "bold": True},
    "hint": {"fg": "green", "bold": True},
    "related": {"fg": "cyan", "bold": True},
}


def painter(colour: bool) -> Paint:
    """How text is rendered, with or without colours."""
    return _coloured if colour else _plain


def _plain(text: str, role: str) -> str:
    return text


def _coloured(text: str, role: str) -> str:
    import click

    return click.style(text, **_STYLES[role])
