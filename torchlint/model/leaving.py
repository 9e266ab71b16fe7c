"""Statements that always leave their block: by `break`, `continue`, `return` or `raise`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.syntax import children

_LEAVING = (cst.Break, cst.Continue, cst.Return, cst.Raise)
_SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_LOOPS = (cst.For, cst.While)


def may_repeat(loop: cst.For | cst.While) -> bool:
    """Whether a loop can come to a second iteration: through the end of its body, or by `continue`."""
    return _may_reach_end(loop.body) or any(isinstance(node, cst.Continue) for node in _own_nodes(loop.body))


def _may_reach_end(node: cst.CSTNode) -> bool:
    """Whether what follows a statement or a block may be reached."""
    if isinstance(node, _LEAVING):
        return False
    if isinstance(node, (cst.BaseSuite, cst.SimpleStatementLine)):
        return all(_may_reach_end(item) for item in node.body)
    if isinstance(node, cst.With):
        return _may_reach_end(node.body)
    if isinstance(node, cst.If):
        return node.orelse is None or _may_reach_end(node.body) or _may_reach_end(node.orelse)
    if isinstance(node, cst.Else):
        return _may_reach_end(node.body)
    if isinstance(node, (cst.Try, cst.TryStar)):
        return _may_pass(node)
    return True


def _may_pass(node: cst.Try | cst.TryStar) -> bool:
    if node.finalbody is not None and not _may_reach_end(node.finalbody.body):
        return False
    body = _may_reach_end(node.body) and (node.orelse is None or _may_reach_end(node.orelse))
    return body or any(_may_reach_end(handler.body) for handler in node.handlers)


def _own_nodes(body: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What is in a body, without functions and loops inside of it."""
    stack = children(body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _LOOPS):
            stack.extend(children(node.orelse) if node.orelse is not None else ())
        elif not isinstance(node, _SCOPES):
            stack.extend(children(node))
