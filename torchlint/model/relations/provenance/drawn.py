"""Loop variables that iterate over the parameters of a network or an optimizer."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions
from torchlint.model.queries import names
from torchlint.syntax.python_ast import LOOPS, called_name, walk

_PARAMETERS = frozenset({"parameters", "named_parameters"})
_PASSING = frozenset({"list", "tuple", "tqdm"})


class Drawn:
    """Answers about loop variables, as far as one file shows."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree

    def is_parameter(self, loop: ast.For, name: str) -> bool:
        """Whether a loop variable is a parameter in each iteration: from `parameters()`, also in `zip`."""
        return self._is_parameter(loop.target, loop.iter, name)

    def _is_parameter(self, target: ast.expr, over: ast.expr, name: str) -> bool:
        value = names.only_value(over, self.definitions) if isinstance(over, ast.Name) else None
        over = over if value is None else value
        if isinstance(over, ast.Subscript):
            is_group = isinstance(over.slice, ast.Constant) and over.slice.value == "params"
            return is_group and _is_name(target, name)
        caller = called_name(over) if isinstance(over, ast.Call) else ""
        if not isinstance(over, ast.Call) or not (over.args or caller in _PARAMETERS):
            return False
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if caller in _PASSING:
            return self._is_parameter(target, over.args[0], name)
        if caller == "enumerate":
            return len(parts) == 2 and self._is_parameter(parts[1], over.args[0], name)
        if caller == "zip":
            pairs = zip(parts, over.args, strict=False)
            return any(self._is_parameter(part, each, name) for part, each in pairs if _binds(part, name))
        if caller == "named_parameters":
            return len(parts) == 2 and _is_name(parts[1], name)
        return caller == "parameters" and _is_name(target, name)

    def is_read_behind(self, statement: ast.stmt, name: str, loop: ast.For) -> bool:
        """Whether code may read a loop variable with the value that a statement in the loop binds."""
        scope, own = self.tree.scope_around(loop), set(walk(statement))
        reads = (item for item in walk(scope) if isinstance(item, ast.Name) and item.id == name and item not in own)
        return any(isinstance(read.ctx, ast.Load) and self._may_follow(read, statement, loop) for read in reads)

    def _may_follow(self, read: ast.Name, statement: ast.stmt, loop: ast.For) -> bool:
        if self.tree.function_around(read) is not self.tree.function_around(statement):
            return True
        if self._is_on_another_arm(read, statement):
            return False
        around = list(self.tree.ancestors(read))
        later = (item for item in around if isinstance(item, ast.For) and item.lineno > loop.lineno)
        is_bound_anew = any(_binds(item.target, read.id) for item in later)
        return read.lineno > statement.lineno and (loop in around or not is_bound_anew)

    def _is_on_another_arm(self, read: ast.Name, statement: ast.stmt) -> bool:
        """Whether a condition runs either a read or a statement, in one iteration."""
        around = list(self.tree.ancestors(read))
        for node in self.tree.ancestors(statement):
            if isinstance(node, LOOPS):
                return False
            if isinstance(node, ast.If) and node in around:
                arms = (self._is_in(item, node.body) for item in (read, statement))
                return next(arms) is not next(arms)
        return False

    def _is_in(self, node: ast.AST, block: list[ast.stmt]) -> bool:
        return any(item in block for item in (node, *self.tree.ancestors(node)))


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _binds(target: ast.expr, name: str) -> bool:
    return any(_is_name(item, name) for item in walk(target) if isinstance(item, ast.expr))
