"""Whether the bytes of a file hold a change in place that the in-place rules could flag."""

import re

_AUGMENTED = re.compile(rb"^[ \t]*[A-Za-z_][\w.]*(?:\[[^\n=]*\])?[ \t]*(?:[-+*/@]|\*\*|//)=", re.M)
_ELEMENT = re.compile(rb"^[ \t]*[A-Za-z_][\w.]*\[[^\n=]*\][ \t]*=(?!=)", re.M)
_METHOD = re.compile(rb"\.[a-z]\w*[a-z\d]_\(")


def changes_in_place(data: bytes) -> bool:
    """Whether anything may be changed in place at all."""
    return b"torch" in data and bool(_AUGMENTED.search(data) or _METHOD.search(data) or _ELEMENT.search(data))


def triage(data: bytes) -> bool:
    """Whether a tensor may be changed in place: by an operator, a method, a flag or an optimizer's step."""
    if b"torch" not in data:
        return False
    return (
        b"inplace=True" in data
        or b"out=" in data
        or (b"backward" in data and b"step" in data)
        or changes_in_place(data)
    )
