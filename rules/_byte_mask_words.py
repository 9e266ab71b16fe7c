"""Words in files that create byte masks or index by them."""

from __future__ import annotations

from torchlint.lazy_pattern import LazyPattern

CALLS = frozenset({"byte", "ByteTensor"})
"""Calls that create a byte mask."""
_ELSEWHERE = b"".join(rb"(?<!\b%s\.uint8)" % module for module in (b"np", b"numpy", b"tf", b"jnp", b"cp"))
_MAKES = (
    LazyPattern(rb"byte\b(?<=[.\s]byte)\s*\("),
    LazyPattern(rb"ByteTensor\b(?:\s*\(|(?<!: torch\.ByteTensor)\s*\))"),
    LazyPattern(rb"uint8\b(?<![\"'_]uint8)" + _ELSEWHERE),
)
"""A call to `byte` or `ByteTensor`, or a call with a byte type. Excludes annotations and other types."""
_STORES_NUMBER = LazyPattern(
    rb"\][\s\\]{0,99}=[\s\\(]{0,99}(?:[-+\d.]|True\b|False\b|float\b|\w{1,99}[\s\\]{0,9}\.[\s\\]{0,9}(?:inf|nan)\b)"
)
_INDEXES = LazyPattern(rb"\[[^\]\n]{0,99}[A-Za-z_]")


def may_make_bytes(data: bytes) -> bool:
    """Whether a file may create a byte tensor."""
    return any(pattern.search(data) for pattern in _MAKES)


def may_store_number(data: bytes) -> bool:
    """Whether a file may store a number at a byte mask."""
    return may_make_bytes(data) and _STORES_NUMBER.search(data) is not None


def may_read(data: bytes) -> bool:
    """Whether a file may index by a byte mask."""
    return may_make_bytes(data) and _INDEXES.search(data) is not None
