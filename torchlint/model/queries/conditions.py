"""Conditions that are asked twice: `if args.amp` here, and the `else` of `if args.amp` there."""

from __future__ import annotations

import ast

from torchlint.model.events import Branch, Path
from torchlint.model.program import Program
from torchlint.syntax.python_ast import walk, written_alike


def contradict(program: Program, first: Path, second: Path) -> bool:
    """Whether two paths answer one question differently; what decides is taken to stay what it is."""
    asked = [(test, arm) for branch, arm in second if (test := _test(program, branch)) is not None]
    return bool(asked) and any(
        arm != other and written_alike(test, asked_again)
        for branch, arm in first
        if (test := _test(program, branch)) is not None
        for asked_again, other in asked
    )


def _test(program: Program, branch: object) -> ast.expr | None:
    """The condition of an `if` that calls nothing."""
    node = program.tree.node(branch.site) if isinstance(branch, Branch) else None
    if not isinstance(node, (ast.If, ast.IfExp)) or any(isinstance(item, ast.Call) for item in walk(node.test)):
        return None
    return node.test
