"""Accumulation windows: steps that come once in several micro-batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import Branch, Step
from torchlint.syntax.python_ast import walk, written_alike
from torchlint.syntax.python_tree import PythonTree

_ACCUMULATES = LazyPattern(r"(?i)accum|micro_?(batch|step)")
"""Names of numbers and flags of an accumulation window."""


Window = tuple[object, int]
"""The arm of a branch that ends a window, or that leaves within one."""


def windows_of(step: Step, tree: PythonTree) -> Iterator[Window]:
    """The arms in which a step stands, or without it that leave, by a count of micro-batches."""
    for arm in (*step.path, *step.passed):
        branch, _ = arm
        node = tree.own_node(branch.site) if isinstance(branch, Branch) else None
        if isinstance(node, ast.If) and _is_counted(node.test, tree):
            yield arm


def _is_counted(test: ast.expr, tree: PythonTree) -> bool:
    """Whether a test asks for the number of a micro-batch: `(i + 1) % k == 0`, `count == accumulation_steps`."""
    if any(map(_counts, walk(test))):
        return True
    flag = test.operand if isinstance(test, ast.UnaryOp) else test
    if not isinstance(flag, (ast.Name, ast.Attribute)):
        return False
    assigned = (node for node in tree.of_type(ast.Assign) if any(map(_counts, walk(node.value))))
    return any(written_alike(target, flag) for node in assigned for target in node.targets)


def _counts(node: ast.AST) -> bool:
    """Whether an expression counts within a window, or is named so."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mod)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(_ACCUMULATES.search(name))
