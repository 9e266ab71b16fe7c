"""Code in comments: commented-out statements, as opposed to prose about code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.files.lines import comments
from torchlint.files.python import UNREADABLE, python_tree
from torchlint.syntax.python_ast import walk

_LONGEST = 12
"""Maximum number of lines of a statement in a comment."""


def calls_in_comments(text: str, name: str) -> Iterator[ast.Call]:
    """The calls in a program's comments that are code, as far as they mention a name."""
    for block in _blocks(text) if name in text else ():
        for first in range(len(block)):
            for last in range(first + 1, min(len(block), first + _LONGEST) + 1):
                lines = block[first:last]
                if any(name in line for line in lines):
                    yield from _calls("\n".join(lines))


def _blocks(text: str) -> Iterator[list[str]]:
    """The comments without their `#`: consecutive lines of comments together, and each comment after code."""
    block: list[str] = []
    end = 0
    for found in comments(text):
        between = text[end : found.start()]
        if block and (between.strip() or between.count("\n") > 1):
            yield block
            block = []
        block.append(found["comment"].lstrip("#"))
        end = found.end()
    if block:
        yield block


def _calls(text: str) -> list[ast.Call]:
    """The calls in some code, except annotations: `TODO: step()` is Python, too. Empty if it is no code."""
    from textwrap import dedent  # compiles patterns; few files have code in comments

    try:
        tree = python_tree(dedent(text))
    except UNREADABLE:
        return []
    nodes = [node for statement in tree.body for node in walk(statement)]
    noted = {part for node in nodes if isinstance(node, ast.AnnAssign) for part in walk(node.annotation)}
    return [node for node in nodes if isinstance(node, ast.Call) and node not in noted]
