"""Loss calls: expressions that surely compute a loss and do nothing else, as the code spells them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.model.queries import names
from torchlint.pytorch import losses
from torchlint.syntax.python_ast import called_name, dotted, last_name, walk

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo, FunctionInfo
    from torchlint.model.model import Model

_ACTING = frozenset({"backward", "step", "zero_grad", "append", "update", "load_state_dict"})
"""Calls for the sake of their effect."""


def is_loss(node: ast.expr, model: Model) -> bool:
    """Whether an expression is a loss, or a sum of losses and numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult, ast.Div, ast.Sub)):
        sides = (node.left, node.right)
        return any(is_loss(item, model) for item in sides) and all(_is_plain(item, model) for item in sides)
    if not isinstance(node, ast.Call):
        return False
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in ("mean", "sum")
        and isinstance(node.func.value, ast.Call)
    ):
        return is_loss(node.func.value, model)
    return _is_of_pytorch(node, model) or _is_of_program(node, model)


def _is_plain(node: ast.expr, model: Model) -> bool:
    """Whether an operand is a loss, a number or a name."""
    return isinstance(node, (ast.Constant, ast.Name, ast.Attribute)) or is_loss(node, model)


def _is_of_pytorch(call: ast.Call, model: Model) -> bool:
    """Whether a call is one of PyTorch's loss functions, or of a loss module that the program creates."""
    package, _, last = names.imported(call.func, model.definitions).rpartition(".")
    if package == "torch.nn.functional":
        return last in losses.OPERATORS
    made = call.func if isinstance(call.func, ast.Call) else model.provenance.created(call.func)
    if not isinstance(made, ast.Call):
        return False
    package, _, last = model.definitions.named(made.func).rpartition(".")
    return package == "torch.nn" and last in losses.FUNCTIONS


def _is_of_program(call: ast.Call, model: Model) -> bool:
    """Whether a call is of a function or a class of the program that computes a loss, by its name, and only that."""
    if "loss" not in last_name(call.func).lower() and "criterion" not in last_name(call.func).lower():
        return False
    function = names.function(call.func, model.definitions) or model.provenance.function_called(call)
    if function is not None:
        return "loss" in function.name.lower() and _is_pure(function)
    made = call.func if isinstance(call.func, ast.Call) else model.provenance.created(call.func)
    info = model.definitions.class_named(dotted(made.func)) if isinstance(made, ast.Call) else None
    return info is not None and _is_pure_loss_class(info)


def _is_pure_loss_class(info: ClassInfo) -> bool:
    forward = info.method("forward") or info.method("__call__")
    return "loss" in info.name.lower() and forward is not None and _is_pure(forward)


def _is_pure(function: FunctionInfo) -> bool:
    """Whether a function keeps and trains nothing: it sets no attribute, and calls nothing for its effect."""
    for node in walk(function.node):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.Call) and called_name(node) in _ACTING:
            return False
    return not function.is_generator
