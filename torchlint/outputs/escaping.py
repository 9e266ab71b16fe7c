"""Text of a checkout, so that neither a terminal nor a service that reads the log takes any of it for a command."""

from __future__ import annotations

import json
from typing import Any

from torchlint.lazy_pattern import LazyPattern

_HASH = LazyPattern(r"#(?=#\w*\[)")
_COLON = LazyPattern(r"^(\s*):(?=:)")
"""Starts of commands to GitHub, Azure and TeamCity: `##vso[` anywhere, `::error::` at the start of a line."""
_HIDDEN = LazyPattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that HTML forbids, and those that make the text look different from what it is."""


def printable(text: str, keep: str = "") -> str:
    """Text on one line without terminal commands; characters of `keep` stay."""
    text = "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)
    return _COLON.sub(r"\1\\x3a", _HASH.sub(r"\\x23", text))


def _escaped(char: str) -> str:
    """Bytes of a file name that are no text stay as they are for whoever writes them out."""
    return char if "\udc80" <= char <= "\udcff" else repr(char)[1:-1]


def without_commands(line: str) -> str:
    """A line of source, character for character, for a place behind something else on its line."""
    return _HASH.sub("\N{REPLACEMENT CHARACTER}", line)


def json_text(value: Any) -> str:
    """Indented JSON in ASCII, which survives any pipe; a hash that might begin a command is written as an escape."""
    return _without_hashes(json.dumps(value, indent=2)) + "\n"


def json_line(value: Any) -> str:
    """The same on one line."""
    return _without_hashes(json.dumps(value)) + "\n"


def _without_hashes(text: str) -> str:
    return _HASH.sub(r"\\u0023", text)


def html_text(page: str) -> str:
    """HTML or XML in ASCII, without characters that are not seen."""
    shown = _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", page)
    return _HASH.sub("&#35;", shown.encode("ascii", "xmlcharrefreplace").decode())


def sarif_text(message: str) -> str:
    """A message in which no brackets are taken for a link, as `[text](address)` is."""
    return printable(message).replace("](", r"\](")
