"""Old Python: constructs that no later version can parse. Used only for text that is no valid Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torchlint.files.lines import blank_literals

_START = r"(?:^|[:;\r])[ \t]*"
_OPERAND = r"[ \t]+(?!(?:and|or|in|is|if|else|for|not[ \t]+in)\b)[\w'\"]"
_SIGNS_OF_2 = {
    "`print` without parentheses": rf"{_START}(?P<sign>print)(?:{_OPERAND}|[ \t]*>>)",
    "`exec` without parentheses": rf"{_START}(?P<sign>exec){_OPERAND}",
    "`except` with a comma": r"(?:^|\r)[ \t]*(?P<sign>except)\b[^:\r\n]*,[ \t]*\w+[ \t]*:",
    "`raise` with a comma": rf"{_START}(?P<sign>raise)[ \t]+[\w.]+[ \t]*,",
    "the operator `<>`": r"[\w)\]'\"][ \t]*(?P<sign><>)[ \t]*[\w(\[{'\"-]",
    "a long integer": r"[=(,\[*+][ \t]*(?P<sign>(?:0[xX][0-9a-fA-F]+|\d+)[lL])\b",
    "an octal number without `0o`": r"[=(,\[][ \t]*(?P<sign>0[0-7]{3,})\b",
    "a `ur` string": r"\b(?P<sign>[uU][rR])['\"]",
}
_SIGNS_OF_36 = {
    "`async` as a name": r"(?:\.|[(,](?=[ \t]*async[ \t]*(?:[),]|=(?!=))))[ \t]*(?P<sign>async)\b",
}
_PATTERNS = [
    (version, what, re.compile(pattern, re.MULTILINE))
    for version, signs in (("Python 2", _SIGNS_OF_2), ("Python 3.6 or older", _SIGNS_OF_36))
    for what, pattern in signs.items()
]
_NOT_2 = re.compile(
    r"\b(?:[fF][rR]?|[rR][fF])['\"] | -> | := | \b(?:async[ \t]+(?:def|for|with)|nonlocal|yield[ \t]+from)\b",
    re.VERBOSE,
)
"""Constructs that no Python 2 program has: in a file with them, code that looks like Python 2 is a mistake."""


@dataclass(frozen=True)
class Sign:
    """A sign that a text is for an old version of Python, and its offset."""

    offset: int
    version: str
    what: str


def first_sign(text: str) -> Sign | None:
    """The first sign of an old Python in an invalid text; None if it is just wrong."""
    code = blank_literals(text)
    versions = {"Python 3.6 or older"} if _NOT_2.search(code) else {version for version, _, _ in _PATTERNS}
    signs = [
        Sign(found.start("sign"), version, what)
        for version, what, pattern in _PATTERNS
        if version in versions and (found := pattern.search(code))
    ]
    return min(signs, key=lambda sign: sign.offset, default=None)
