"""An activation that is taken out in front of a loss."""

from __future__ import annotations

import ast

from torchlint.model import Model
from torchlint.syntax.edits import Change, Replace
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import Site, walk


class Activation:
    """An activation, and the call of the loss that takes what it gives."""

    def __init__(self, model: Model, nodes: Nodes, loss: Site, activation: Site) -> None:
        self._model = model
        self._nodes = nodes
        self._given = first_argument(model.tree.node(loss))
        self._site = activation

    def removal(self) -> Change | None:
        """The operand in place of the activation, where only the loss reads the activation."""
        if self._site.inner is not None:
            return None
        node, written = self._model.tree.node(self._site), self._nodes.at(self._site)
        operand = operand_of(node)
        if written is None or operand is None or not (node is self._given or self._is_for(node)):
            return None
        code = self._model.tree.code(operand)
        return Change("remove the activation", [Replace(written, code)]) if "\n" not in code else None

    def _is_for(self, activation: ast.AST) -> bool:
        """Whether an activation is assigned to a name of its function that is read in one place only."""
        tree, name = self._model.tree, self._given
        statement = tree.parent(activation)
        function = self._model.program.definitions.function_around(activation)
        if not isinstance(name, ast.Name) or not isinstance(statement, ast.Assign) or function is None:
            return False
        same = [node for node in walk(function.node) if isinstance(node, ast.Name) and node.id == name.id]
        return same.count(name) == 1 and len(same) == 2 and same[0] in statement.targets


def first_argument(call: ast.AST) -> ast.expr | None:
    """The first argument of a call."""
    if not isinstance(call, ast.Call):
        return None
    named = [item.value for item in call.keywords if item.arg == "input"]
    return next(iter((*call.args[:1], *named)), None)


def operand_of(activation: ast.AST) -> ast.expr | None:
    """`x` of `F.softmax(x, dim=1)`, `x.softmax(1)` and `nn.Softmax(dim=1)(x)`."""
    given = first_argument(activation)
    if not isinstance(activation, ast.Call) or not isinstance(activation.func, ast.Attribute):
        return given
    return activation.func.value if given is None or isinstance(given, ast.Constant) else given
