"""Containers that register modules: whether code that uses a plain list or dictionary of modules also runs with one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.syntax.python_ast import called_name, dotted, walk
from torchlint.syntax.python_tree import PythonTree

_METHODS = {
    "ModuleList": frozenset({"append", "extend", "insert", "pop"}),
    "ModuleDict": frozenset({"keys", "values", "items", "pop", "update", "clear"}),
    "ParameterList": frozenset({"append", "extend", "pop"}),
    "ParameterDict": frozenset({"keys", "values", "items", "pop", "update", "clear", "get", "setdefault"}),
}
"""The methods of lists and dictionaries that the containers have, too."""
_TAKEN = frozenset("type train eval training forward half float double to apply".split())
"""Names that no entry of a `ModuleDict` may have, beside its methods."""


class RegisteringContainer:
    """Asks about the containers of one kind, such as `ModuleList`."""

    def __init__(self, holder: str, tree: PythonTree) -> None:
        self._tree = tree
        self._methods = _METHODS[holder]
        self._is_dict = holder.endswith("Dict")

    def may_replace(self, container: ast.AST, attribute: str) -> bool:
        """Whether all elements of a container may be registered, and all that is done with the attribute that keeps it,
        or with the variable that it was filled in, goes on working."""
        mentions = list(self._mentions(container, attribute))
        elements = [*_elements(container), *(item for mention in mentions for item in self._added(mention))]
        keys = container.keys if isinstance(container, ast.Dict) else []
        are_names = all(key is not None and self._is_key(key) for key in keys)
        return are_names and all(map(self._may_register, elements)) and all(map(self._works, mentions))

    def _mentions(self, container: ast.AST, attribute: str) -> Iterator[ast.expr]:
        yield from (node for node in self._tree.of_type(ast.Attribute) if node.attr == attribute)
        statement, function = self._tree.statement(container), self._tree.function_around(container)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        inside = walk(function) if function is not None else iter(())
        yield from (node for node in inside if isinstance(node, ast.Name) and node.id in names)

    def _added(self, mention: ast.expr) -> Iterator[ast.expr]:
        """The value put into the container: `x` of `.append(x)` and of `[key] = x`."""
        parent = self._tree.parent(mention)
        around = self._tree.parent(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and isinstance(around, ast.Call) and parent.attr in ("append", "insert"):
            yield from around.args[-1:]
        elif isinstance(parent, ast.Subscript) and isinstance(around, ast.Assign) and parent in around.targets:
            yield around.value

    def _may_register(self, element: ast.expr) -> bool:
        """Whether an element may be a module: a call makes it, or a variable has it."""
        if isinstance(element, ast.Starred):
            return True
        if isinstance(element, ast.IfExp):
            return self._may_register(element.body) and self._may_register(element.orelse)
        return isinstance(element, (ast.Call, ast.Name))

    def _works(self, mention: ast.expr) -> bool:
        """Whether a mention of the container is one that it knows how to answer."""
        parent = self._tree.parent(mention)
        if isinstance(parent, ast.Attribute):
            return parent.attr in self._methods
        if isinstance(parent, ast.BinOp):
            return not self._is_dict and parent.left is mention and isinstance(parent.op, ast.Add)
        if isinstance(parent, ast.Call):
            return called_name(parent) not in ("isinstance", "sorted", "sum")
        if self._is_dict and isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
            return self._is_key(parent.slice)
        return not isinstance(parent, ast.Compare) or not isinstance(parent.ops[0], (ast.Eq, ast.NotEq))

    def _is_key(self, key: ast.expr) -> bool:
        """Whether a key is a string that a module may have as a name; a variable, if it goes through such strings."""
        if isinstance(key, ast.Constant):
            return isinstance(key.value, str) and "." not in key.value and key.value not in self._methods | _TAKEN
        if isinstance(key, ast.Name):
            loops = (item for item in self._tree.ancestors(key) if isinstance(item, ast.For))
            over = next((item.iter for item in loops if dotted(item.target) == key.id), None)
            return isinstance(over, (ast.List, ast.Tuple)) and all(map(self._is_key, over.elts))
        return isinstance(key, ast.Call) and called_name(key) == "str"


def _elements(container: ast.AST) -> list[ast.expr]:
    if isinstance(container, ast.ListComp):
        return [container.elt]
    if isinstance(container, ast.Dict):
        return container.values
    return container.elts if isinstance(container, ast.List) else []
