"""Transformer layers that a module calls without a mask over future tokens."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo

_INPUTS = {"TransformerEncoder": 1, "TransformerDecoder": 2, "Transformer": 2}
"""Layers of PyTorch with the number of their inputs before the masks."""
_MASKS = frozenset({"mask", "src_mask", "tgt_mask", "is_causal", "tgt_is_causal", None})


def call_in(info: ClassInfo, index: int) -> ast.Call | None:
    """The call to a transformer layer on an argument of the `forward` of a class, if all such calls lack a mask."""
    forward = info.method("forward")
    calls = (
        [node for node in python_ast.walk(forward.node) if isinstance(node, ast.Call)] if forward is not None else []
    )
    found = list[ast.Call]()
    for call in calls:
        made = written.value_of(call.func, info.definitions) if isinstance(call.func, ast.Attribute) else None
        kind = names.imported(made.func, info.definitions) if isinstance(made, ast.Call) else ""
        layer = kind.removeprefix("torch.nn.").removeprefix("modules.transformer.")
        if not kind.startswith("torch.nn.") or layer not in _INPUTS:
            continue
        if len(call.args) > _INPUTS[layer] or any(item.arg in _MASKS for item in call.keywords):
            return None
        if layer == "TransformerEncoder" and not _is_plain(made, info):
            return None
        place = 1 if layer == "Transformer" else 0
        if forward is not None and len(call.args) > place and index + 1 < len(forward.parameters):
            if _depends(call.args[place], forward.parameters[index + 1], forward.node):
                found.append(call)
    return found[-1] if found else None


def _depends(node: ast.expr, parameter: str, function: ast.AST) -> bool:
    """Whether an expression reads a parameter, or a variable that the function computes from it."""
    known, assigned = {parameter}, [item for item in python_ast.walk(function) if isinstance(item, ast.Assign)]
    for statement in assigned:
        if known & python_ast.names_read(statement.value):
            known |= {
                item.id
                for target in statement.targets
                for item in python_ast.walk(target)
                if isinstance(item, ast.Name)
            }
    return bool(known & python_ast.names_read(node))


def _is_plain(encoder: ast.expr | None, info: ClassInfo) -> bool:
    """Whether an encoder repeats PyTorch's own layer, which attends to all positions."""
    layer = written.argument(encoder, 0, "encoder_layer") if isinstance(encoder, ast.Call) else None
    made = written.value_of(layer, info.definitions) if layer is not None else None
    return isinstance(made, ast.Call) and names.imported(made.func, info.definitions).startswith("torch.nn.")
