"""The nesting depth of code, measured before the parser, which overflows or hangs on deep nesting."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import accumulate

from torchlint.lazy_pattern import LazyPattern

MAX_BRACKETS = 200
"""CPython refuses deeper nesting (`MAXLEVEL` in Parser/tokenizer): such a file is no Python."""
MAX_LINKS = 2_000
"""Operators, calls and attributes of one expression. The parser's time grows with their square."""

_STEPS = {ord(char): 1 for char in "([{"} | {ord(char): -1 for char in ")]}"}
_NOT_BRACKETS = bytes(code for code in range(256) if code not in _STEPS)
_LINK_ON_ITS_OWN_LINE = LazyPattern(rb"\n[ \t]*(?:[-.+*/%&|^<>@~(\[]|not\b|and\b|or\b|if\b|else\b)|\\\r?\n")
_TOKEN = LazyPattern(
    r"""
      (?P<prefix>[A-Za-z]{0,2})(?P<string>
          \"{3}(?:[^"\\]|\\.|"(?!""))*(?:\"{3}|\Z) | '{3}(?:[^'\\]|\\.|'(?!''))*(?:'{3}|\Z)
        | "(?:[^"\\\r\n]|\\(?:\r\n|.))*"? | '(?:[^'\\\r\n]|\\(?:\r\n|.))*'? )
    | \#[^\r\n]*
    | (?P<link>(?:not|and|or|in|is|if|else|lambda|await)\b | \*\* | // | <= | >= | == | != | [-.+*/%&|^<>@~])
    | \d[\w.]* | \w+
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<end>[,;=\r\n])
    | \\\r?\n
    """,
    re.VERBOSE | re.DOTALL,
)


def may_be_too_deep(data: bytes) -> bool:
    """A quick guess from the bytes: it may wrongly say yes, but never wrongly no."""
    return (
        max(accumulate(map(_STEPS.__getitem__, data.translate(None, _NOT_BRACKETS))), default=0) > MAX_BRACKETS
        or max(map(len, data.split(b"\n"))) > MAX_LINKS
        or len(_LINK_ON_ITS_OWN_LINE.findall(data)) > MAX_LINKS
    )


@dataclass(frozen=True)
class Excess:
    """The place of too deep nesting, and whether Python itself would refuse it."""

    offset: int
    invalid: bool
    message: str


def first_excess(text: str) -> Excess | None:
    """The first place where brackets are too deep or an expression is too long."""
    links = [0]
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "string" and "f" in token["prefix"].lower():
            if inner := first_excess(token["string"].strip("\"'")):
                return replace(inner, offset=token.start())
        elif kind == "close" and len(links) > 1:
            links.pop()
        elif kind == "end" and (len(links) == 1 or token[0] == ","):
            links[-1] = 0
        elif kind in ("link", "open"):
            links[-1] += 1
            if links[-1] > MAX_LINKS:
                message = f"an expression of more than {MAX_LINKS:,} operators and calls is too long"
                return Excess(token.start(), False, message)
            if kind == "open":
                links.append(0)
            if len(links) > MAX_BRACKETS + 1:
                return Excess(token.start(), True, "too many nested parentheses")
    return None
