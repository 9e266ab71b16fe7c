"""Whether the bytes of a file hold a change in place that the in-place rules could flag."""

import re

_AUGMENTED = re.compile(rb"^[ \t]*[A-Za-z_][\w.]*(?:\[[^\n=]*\])?[ \t]*(?:[-+*/@]|\*\*|//)=", re.M)
_ELEMENT = re.compile(rb"^[ \t]*[A-Za-z_][\w.]*\[[^\n=]*\][ \t]*=(?!=)", re.M)
_METHOD = re.compile(rb"\.[a-z]\w*[a-z\d]_\(")


def changes_in_place(data: bytes) -> bool:
    """Whether a tensor may be changed in place: by an operator, a method or a flag."""
    if b"torch" not in data:
        return False
    flagged = b"inplace=True" in data or b"out=" in data
    return bool(flagged or _AUGMENTED.search(data) or _METHOD.search(data) or _ELEMENT.search(data))


def triage(data: bytes) -> bool:
    """Whether a tensor may be changed in place, or a step may update parameters that a backward still needs."""
    return (b"backward" in data and b"step" in data) or changes_in_place(data)
