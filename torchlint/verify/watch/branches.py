"""The lines of a file that are in a branch: a program may skip them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache

from torchlint.verify.evidence import Evidence


@lru_cache(maxsize=8)
def branch_lines(data: bytes) -> frozenset[int]:
    """The lines in `if` statements and handlers of errors; `if __name__ == "__main__":` is none."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    bodies = [body for node in ast.walk(tree) for body in _bodies(node)]
    return frozenset(
        line for body in bodies for line in range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
    )


def branches_of(read: Callable[[str], bytes | None]) -> Callable[[Evidence, Sequence[Sequence[int]]], bool]:
    """A function that tells whether a line of some frames is in a branch; `read` returns the data of a file."""

    def is_in_branch(evidence: Evidence, frames: Sequence[Sequence[int]]) -> bool:
        return any(line in branch_lines(read(evidence.files[file]) or b"") for file, line in frames)

    return is_in_branch


def _bodies(node: ast.AST) -> list[list[ast.stmt]]:
    if isinstance(node, ast.If):
        names = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
        return [] if "__name__" in names else [body for body in (node.body, node.orelse) if body]
    return [node.body] if isinstance(node, ast.ExceptHandler) else []
