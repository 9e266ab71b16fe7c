"""The source text of the program: the statements around a line that a check has observed."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache

_OFF = ("no_grad", "inference_mode", "set_grad_enabled")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=16)
def tree_of(path: str) -> ast.Module | None:
    """The syntax tree of a file; None if it cannot be read."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def assignments(path: str, name: str, first: int = 1, last: int = 1 << 30) -> list[ast.Assign]:
    """The assignments to a name or attribute, as the program spells it, between two lines."""
    return [
        item
        for item in _nodes(path, ast.Assign)
        if first <= item.lineno <= last and any(ast.unparse(target) == name for target in item.targets)
    ]


def aliases(path: str) -> Iterator[tuple[int, str, str]]:
    """The line and both names of each statement that only gives another name to a value: `teacher = student`."""
    named = (ast.Name, ast.Attribute)
    for item in _nodes(path, ast.Assign):
        if isinstance(item.value, named) and isinstance(item.targets[0], named):
            yield item.lineno, ast.unparse(item.targets[0]), ast.unparse(item.value)


def switch_off(path: str, line: int) -> int:
    """The line of the innermost block or decorator around a line that switches gradients off; 0 if there is none."""
    found = 0
    for item in _nodes(path, ast.With, *_FUNCTIONS):
        if item.lineno <= line <= (item.end_lineno or 0):
            inner = [one.context_expr for one in item.items] if isinstance(item, ast.With) else item.decorator_list
            found = next((one.lineno for one in inner if any(name in ast.unparse(one) for name in _OFF)), found)
    return found


def calls_of(path: str, owner: str, method: str) -> list[int]:
    """The lines of the statements around `owner.method(...)`: that of an `if` for its only call."""
    calls = [
        item
        for item in _nodes(path, ast.Call)
        if isinstance(item.func, ast.Attribute) and item.func.attr == method and ast.unparse(item.func.value) == owner
    ]
    return [_condition(path, call.lineno) or call.lineno for call in calls]


def loop_of(path: str, first: int, last: int) -> int:
    """The line of the first `for` loop between two lines; 0 if there is none."""
    loops = (item.lineno for item in _nodes(path, ast.For) if first <= item.lineno <= last)
    return min(loops, default=0)


def target_of(path: str, line: int) -> str:
    """The name that the statement at a line assigns; empty for another statement."""
    found = (item for item in _nodes(path, ast.Assign) if item.lineno <= line <= (item.end_lineno or 0))
    return next((ast.unparse(item.targets[0]) for item in found), "")


def _condition(path: str, line: int) -> int:
    """The line of the innermost `if` around a line; 0 if there is none."""
    around = [item for item in _nodes(path, ast.If) if item.body[0].lineno <= line <= (item.body[-1].end_lineno or 0)]
    return max((item.lineno for item in around), default=0)


def _nodes(path: str, *kinds: type) -> Iterator[ast.AST]:
    tree = tree_of(path)
    return (item for item in ast.walk(tree) if isinstance(item, kinds)) if tree is not None else iter(())
