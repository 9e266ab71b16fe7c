"""Calls that interpolate a mask, or turn it into integers."""

from __future__ import annotations

import ast

from torchlint.syntax import python_ast


def interpolates(call: ast.Call) -> bool:
    is_cv2 = python_ast.dotted(call.func) == "cv2.resize" and len(call.args) == 2
    return is_cv2 and not any(item.arg in ("interpolation", None) for item in call.keywords)


def is_integer(node: ast.AST) -> bool:
    """Whether a call turns a tensor or array into integers: `x.long()`, `torch.tensor(x, dtype=torch.long)`."""
    if not isinstance(node, ast.Call):
        return False
    given = [python_ast.dotted(item) for item in python_ast.arguments(node)]
    return python_ast.called_name(node) in ("long", "LongTensor") or bool(
        {"torch.long", "torch.int64", "np.int64"} & set(given)
    )


def end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
