"""Keys that take only a few values: a position modulo a size, one that starts over, one that stays."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.program import Program
from torchlint.syntax.python_ast import dotted, walk

_DEEPEST = 3


class Rings:
    """Answers about the keys under which a program stores values."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def is_ring(self, key: ast.expr, loop: ast.AST | None, depth: int = _DEEPEST) -> bool:
        """Whether a key takes only a few values in a loop: `i % size`, `self.position`, which starts over."""
        if any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mod) for item in walk(key)):
            return True
        if depth == 0:
            return False
        if isinstance(key, ast.Call):
            return self._gives_ring(key)
        if not isinstance(key, (ast.Name, ast.Attribute)) or not dotted(key):
            return False
        is_attribute = isinstance(key, ast.Attribute)
        changes = list(self._changes(key, loop))
        if is_attribute and not changes:
            return dotted(key).startswith("self.")
        values = [change.value for change in changes if isinstance(change, ast.Assign)]
        starts_over = any(isinstance(value, ast.Constant) for value in values)
        is_reduced = any(isinstance(change, ast.AugAssign) and isinstance(change.op, ast.Mod) for change in changes)
        return starts_over or is_reduced or any(self.is_ring(value, loop, depth - 1) for value in values)

    def _changes(self, key: ast.expr, loop: ast.AST | None) -> Iterator[ast.Assign | ast.AugAssign]:
        """The assignments to a name in its loop, or in its function; those to an attribute outside `__init__`."""
        definitions, name = self._program.definitions_of(key), dotted(key)
        around = definitions.function_around(key)
        is_inside = loop is not None and any(item is loop for item in definitions.tree.ancestors(key))
        region = loop if is_inside else around.node if around is not None else None
        if isinstance(key, ast.Attribute):
            region = around.owner.node if around is not None and around.owner is not None else region
        for node in walk(region) if region is not None else ():
            if not isinstance(node, (ast.Assign, ast.AugAssign)):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            within = definitions.function_around(node)
            is_first = isinstance(key, ast.Attribute) and within is not None and within.name == "__init__"
            if not is_first and any(dotted(target) == name for target in targets):
                yield node

    def _gives_ring(self, call: ast.Call) -> bool:
        """Whether a method of the program computes a position modulo a size."""
        definitions = self._program.definitions_of(call)
        around, name = definitions.function_around(call), dotted(call.func)
        owner = around.owner if around is not None else None
        method = owner.method(name.rpartition(".")[2]) if owner is not None and name.startswith("self.") else None
        return method is not None and any(
            isinstance(item, (ast.BinOp, ast.AugAssign)) and isinstance(item.op, ast.Mod) for item in walk(method.node)
        )
