"""Modules moved, cast or switched on creation: `nn.Linear(2, 3).to(device)` is the module."""

from __future__ import annotations

import ast

from torchlint.syntax.python_tree import PythonTree

_SAME_MODULE = frozenset("to cuda cpu half float double bfloat16 train eval".split())


def moved(node: ast.expr, tree: PythonTree) -> ast.expr:
    """The whole chain of calls: `layer.cuda()` for `layer`, `nn.Linear(2, 3).to(x.device)` for `nn.Linear(2, 3)`."""
    while isinstance(parent := tree.parent(node), ast.Attribute) and parent.attr in _SAME_MODULE:
        call = tree.parent(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            break
        node = call
    return node
