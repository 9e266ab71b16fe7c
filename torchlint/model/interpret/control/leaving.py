"""Statements that always leave their block: by `break`, `continue`, `return` or `raise`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchlint.syntax.python_ast import COMPOUND, LEAVING, LOOPS, SCOPES, TRIES, children


def may_repeat(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a loop can reach a second iteration: through the end of its body, or by `continue`."""
    return _may_reach_end(loop.body) or any(isinstance(node, ast.Continue) for node in _own_nodes(loop.body))


def leaves_only_by_its_end(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether no iteration of a loop ends early by `break` or `continue`."""
    return not any(isinstance(node, (ast.Break, ast.Continue)) for node in _own_nodes(loop.body))


def ways_out(block: Sequence[ast.stmt]) -> set[type[ast.AST]]:
    """How a block ends: by `Break`, `Continue`, `Return` or `Raise`, or (`Pass`) at its end."""
    found: set[type[ast.AST]] = set()
    for node in block:
        ways = _ways_through(node)
        found |= ways - {ast.Pass}
        if ast.Pass not in ways:
            return found
    return found | {ast.Pass}


def _ways_through(node: ast.stmt) -> set[type[ast.AST]]:
    if isinstance(node, LEAVING):
        return {type(node)}
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return ways_out(node.body)
    if isinstance(node, ast.If):
        return ways_out(node.body) | ways_out(node.orelse)
    inner = (
        {type(item) for item in _own_nodes([node]) if isinstance(item, LEAVING)}
        if isinstance(node, COMPOUND)
        else set()
    )
    return inner | {ast.Pass}


def _may_reach_end(block: Sequence[ast.stmt]) -> bool:
    """Whether the end of a block may be reached."""
    return all(map(_may_be_passed, block))


def _may_be_passed(node: ast.stmt) -> bool:
    """Whether the end of a statement may be reached."""
    if isinstance(node, LEAVING):
        return False
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return _may_reach_end(node.body)
    if isinstance(node, ast.If):
        return _may_reach_end(node.body) or _may_reach_end(node.orelse)
    if isinstance(node, TRIES):
        return _may_pass_try(node)
    return True


def _may_pass_try(node: ast.Try) -> bool:
    if not _may_reach_end(node.finalbody):
        return False
    body = _may_reach_end(node.body) and _may_reach_end(node.orelse)
    return body or any(_may_reach_end(handler.body) for handler in node.handlers)


def _own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a body, without the functions and loops inside it."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, LOOPS):
            stack.extend(node.orelse)
        elif not isinstance(node, SCOPES):
            stack.extend(children(node))
