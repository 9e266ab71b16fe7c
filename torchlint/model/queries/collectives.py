"""Collective calls of `torch.distributed`, also in functions of the program."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.queries import names, written
from torchlint.syntax.python_ast import dotted

_ALL_REDUCE = "torch.distributed.all_reduce"
_DEEPEST = 3
"""Maximum number of functions between a call and the sum over the processes."""


def sums(call: ast.Call, definitions: Definitions, steps: int = _DEEPEST) -> bool:
    """Whether a call leads to a sum over the processes, through functions without a division."""
    if names.imported(call.func, definitions) == _ALL_REDUCE:
        operation = written.argument(call, 1, "op")
        return operation is None or dotted(operation).endswith(".SUM")
    info = definitions.defined(dotted(call.func)) or names.function(call.func, definitions)
    if not steps or not isinstance(info, FunctionInfo):
        return False
    inside = list(ast.walk(info.node))
    if any(isinstance(item, (ast.BinOp, ast.AugAssign)) and isinstance(item.op, ast.Div) for item in inside):
        return False
    return any(sums(item, info.definitions, steps - 1) for item in inside if isinstance(item, ast.Call))
