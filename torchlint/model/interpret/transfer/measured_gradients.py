"""Gradients that a program only measures: a norm, a mean, a test for NaN."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions
from torchlint.syntax.python_ast import called_name

_KEEPING = frozenset("data detach clone abs pow square float double view reshape flatten cpu".split())
"""Attributes and methods whose result holds the values of a gradient."""
_MEASURING = frozenset(
    "norm vector_norm get_total_norm sum mean std var max min amax amin any all isnan isinf isfinite item numel shape "
    "dtype device size dim nelement is_sparse".split()
)
"""Attributes, methods and functions whose result shares no memory with a gradient."""


def is_measured(gradient: ast.AST, definitions: Definitions) -> bool:
    """Whether the expression around a gradient only measures it: `p.grad.norm()`, `torch.isnan(p.grad)`."""
    node, around = gradient, definitions.tree.parent(gradient)
    while isinstance(around, ast.Attribute) and around.attr in _KEEPING | _MEASURING:
        if around.attr in _MEASURING:
            return True
        node, around = around, definitions.tree.parent(around)
        if isinstance(around, ast.Call) and around.func is node:
            node, around = around, definitions.tree.parent(around)
    if isinstance(around, ast.Compare):
        return all(isinstance(item, (ast.Is, ast.IsNot)) for item in around.ops)
    while isinstance(around, (ast.ListComp, ast.GeneratorExp, ast.List)) and node in (getattr(around, "elt", node),):
        node, around = around, definitions.tree.parent(around)
    if not isinstance(around, ast.Call) or around.func is node or called_name(around) not in _MEASURING:
        return False
    return definitions.named(around.func).startswith("torch.")
