"""Modules whose `forward` is more than a forward pass: a word selects a mode, or it is a whole step with backward."""

from __future__ import annotations

import ast

from torchlint.model.definitions import ClassInfo
from torchlint.model.module_values import given_to, is_forward
from torchlint.model.values import Module, ModuleOutput, Plain, Value, resolved
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import called_name, walk


def may_evaluate_itself(forward: Value) -> bool:
    """Whether a word tells a module to evaluate, `model(batch, "eval")`, perhaps with gradients off."""
    return any(naming.EVALUATING.search(word) or naming.INFERENCE.search(word) for word in _words(forward))


def _words(forward: Value) -> list[str]:
    """The words among a module's arguments."""
    values = (resolved(item) for item in given_to(forward))
    return [item.constant for item in values if isinstance(item, Plain) and isinstance(item.constant, str)]


def may_go_backward_itself(forward: Value) -> bool:
    """Whether the module behind a value may go backward in its `forward`, by its class or because a word selects it."""
    module = resolved(forward.parents[0]) if isinstance(forward, ModuleOutput) else None
    if isinstance(module, Module) and module.info is not None:
        return _goes_backward(module.info)
    return is_forward(forward) and bool(_words(forward))


def _goes_backward(info: ClassInfo) -> bool:
    """Whether a `forward`, or a method it calls directly or indirectly, goes backward: it is a whole step."""
    methods, seen = ["forward"], set[str]()
    while methods:
        name = methods.pop()
        method = info.method(name) if name not in seen else None
        seen.add(name)
        calls = [node for node in walk(method.node) if isinstance(node, ast.Call)] if method is not None else []
        names = set(map(called_name, calls))
        if "backward" in names:
            return True
        methods += names
    return False
