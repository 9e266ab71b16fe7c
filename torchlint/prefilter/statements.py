"""Whether something may be a statement of its own, by the line that it stands in."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from torchlint.files.python import UNREADABLE
from torchlint.lazy_pattern import LazyPattern
from torchlint.prefilter.outline import Function, Outline

_BINDS = LazyPattern(rb"[ \t]*(?:return|yield|import|from|raise|assert|del|print)\b|[^(=]*(?<![=!<>])=(?!=)")
_CONTINUES = (b",", b"(", b"[", b"{", b"=", b"+", b"-", b"*", b"/", b"\\")


def stands_alone(data: bytes, pattern: re.Pattern[bytes]) -> bool:
    """Whether a pattern matches where a line begins with an expression, which nobody binds, returns or goes on with."""
    return any(_may_stand_alone(data, found.start()) for found in pattern.finditer(data))


def calls_for_nothing(outline: Outline, pattern: re.Pattern[bytes], matters: Callable[[ast.Attribute], bool]) -> bool:
    """Whether a statement does nothing but call a method that matters; `pattern` matches every such call."""
    data = outline.data
    places = (found.start() for found in pattern.finditer(data))
    functions = dict.fromkeys(outline.around(place) for place in places if _may_stand_alone(data, place))
    return any(_calls_in(outline, function, matters) for function in functions)


def _calls_in(outline: Outline, function: Function | None, matters: Callable[[ast.Attribute], bool]) -> bool:
    try:
        tree = outline.tree(function)
    except UNREADABLE:
        return True
    calls = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and matters(call.func) for call in calls)


def _may_stand_alone(data: bytes, place: int) -> bool:
    start = max(data.rfind(b"\n", 0, place), data.rfind(b"\r", 0, place)) + 1
    line = data[start:place]
    if _BINDS.match(line) or b"#" in line:
        return False
    if line.count(b"(") < line.count(b")"):
        return True  # it began in a line before
    if line.count(b"(") != line.count(b")") and not line.lstrip().startswith(b"("):
        return False
    before = data[:start].rstrip() if start < 400 else data[start - 400 : start].rstrip()
    last_line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
    return b"#" in last_line or not line.strip() or not before.endswith(_CONTINUES)
