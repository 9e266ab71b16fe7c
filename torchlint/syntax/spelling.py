"""A normalized spelling of a program for byte searches: the same tokens, in the most common form."""

from __future__ import annotations

import ast
import re
import unicodedata
from functools import lru_cache

from torchlint.files.python import UNREADABLE, python_tree
from torchlint.lazy_pattern import LazyPattern

_LONG_NAME = LazyPattern(r"\w*[^\W\x00-\x7f]\w*")
"""A name with letters beyond ASCII."""
_UNUSUAL_GETATTR = LazyPattern(
    rb"getattr\b(?s:.{0,200}?),(?:\s|\\\r?\n?)*[rRuU]?(?:\"\w*\\|'\w*\\|\"\"\"|'''|(?:\"\w*\"|'\w*')\s*[rRuU]?[\"'])"
)
"""A `getattr` that may read a name written in parts or with escapes."""
_CONTINUED = LazyPattern(rb"^([^#\n]*)\\\n", re.M)
"""A line that continues in the next one; not a comment that ends in a backslash."""
_BEFORE = LazyPattern(rb"[ \t](?<=[\w\x80-\xff)\]\"'].)(?<!\bimport.)(?<!\bfrom.)[ \t]*(?=[(\[.])")
_BEHIND = LazyPattern(rb"\.(?<=[\w\x80-\xff)\]\"']\.)[ \t]+(?=[^\W\d]|[\x80-\xff])")
"""Blanks before brackets and dots, and after dots: without them Python sees the same tokens."""
_DOT_FIRST = LazyPattern(rb"\n[ \t]*\.[ \t]*[^\W\d]")
_BEFORE_DOT = LazyPattern(rb"(?:(?<!#)#[^\n]*|(?<=[\w\x80-\xff)\]}\"'])[ \t]*)\n\s*\.[ \t]*(?=[^\W\d])")
"""The end of a line whose successor starts with a dot, with its comment."""


@lru_cache(maxsize=1)
def with_plain_names(data: bytes) -> bytes:
    """A program with normalized names, including names passed to `getattr`."""
    if not data.isascii():
        data = _normalized(data)
    if b"torch" in data and _UNUSUAL_GETATTR.search(data):
        try:
            return ast.unparse(python_tree(data)).encode()
        except UNREADABLE:
            pass
    return data


def _normalized(data: bytes) -> bytes:
    """Names as Python sees them: it normalizes them by NFKC."""
    text = data.decode("utf-8", "surrogateescape")
    if unicodedata.is_normalized("NFKC", text):
        return data
    return _LONG_NAME.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text).encode(
        "utf-8", "surrogateescape"
    )


@lru_cache(maxsize=1)
def with_plain_lines(data: bytes) -> bytes:
    """A program without continuation lines, with newlines as line ends, and without blanks before brackets and dots."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\\\n" in data:
        data = _CONTINUED.sub(rb"\1 ", data)
    data = _BEHIND.sub(b".", _BEFORE.sub(b"", data))
    return _BEFORE_DOT.sub(b".", data) if _DOT_FIRST.search(data) else data
