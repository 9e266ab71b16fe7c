"""Optimizers that an object keeps while a method creates its network anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.relations.provenance.modules import Modules
from torchlint.syntax.python_ast import called_name, dotted, names_read, walk, without_calls, written_alike

_FIRST = "__init__"
_MODULE = "torch.nn.Module"
_SAME = frozenset("to cuda cpu half float double bfloat16 train".split())


class KeptOptimizers:
    """Answers about the networks of an object and the optimizer that it creates once."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree
        self.modules = Modules(definitions)

    def replacing(self, made: ast.Assign, place: ast.expr) -> Iterator[ast.Assign]:
        """The statements that create a network anew, where the object has created it and keeps its optimizer."""
        method, optimizer = self.definitions.method_around(made), made.targets[0]
        owner = method.owner if method is not None else None
        if method is None or owner is None or not _is_own(optimizer, method) or not _is_own(place, method):
            return
        if any(
            item.definitions is not self.definitions if isinstance(item, ClassInfo) else item != _MODULE
            for item in owner.ancestors()
        ):
            return  # another file may set the optimizer
        if not self._is_made_once(made, optimizer, owner) or not self._steps(owner, optimizer):
            return
        stores = list(self._stores(owner, place))
        first = [item for item, around in stores if around is not None and around.name == _FIRST]
        if len(first) != 1 or not isinstance(first[0].value, ast.Call):
            return
        for statement, around in stores:
            if around is None or around.name == _FIRST or not self._creates(statement, first[0], place):
                continue
            is_earlier = around is method and statement.lineno < made.lineno
            if self._is_guarded(made, optimizer) if is_earlier else self._is_later(around, method):
                yield statement

    def _is_made_once(self, made: ast.Assign, optimizer: ast.expr, owner: ClassInfo) -> bool:
        """Whether the file sets an optimizer nowhere else, except to None before the object creates it."""
        name = optimizer.attr if isinstance(optimizer, ast.Attribute) else ""
        if b"add_param_group" in self.tree.source.code or b"setattr" in self.tree.source.code:
            return False
        stores = (node for node in self.tree.of_type(ast.Attribute) if not isinstance(node.ctx, ast.Load))
        return all(
            self._is_none_at_first(node, made) for node in stores if node.attr == name and self._may_be(node, owner)
        )

    def _may_be(self, node: ast.Attribute, owner: ClassInfo) -> bool:
        """Whether an attribute may be one of an object of a class: not if another class sets its own."""
        around = self.definitions.method_around(node)
        if around is None or around.owner is None or not _is_own(node, around):
            return True
        return owner in around.owner.ancestors() or around.owner in owner.ancestors()

    def _is_none_at_first(self, node: ast.Attribute, made: ast.Assign) -> bool:
        store, around = self.tree.parent(node), self.definitions.method_around(node)
        is_none = isinstance(store, ast.Assign) and isinstance(store.value, ast.Constant) and store.value.value is None
        return store is made or (is_none and around is not None and around.name == _FIRST)

    def _stores(self, owner: ClassInfo, place: ast.expr) -> Iterator[tuple[ast.Assign, FunctionInfo | None]]:
        name = place.attr if isinstance(place, ast.Attribute) else ""
        for target in self.modules.stores(owner, name):
            statement = self.tree.parent(target)
            if isinstance(statement, ast.Assign):
                yield statement, self.definitions.method_around(statement)

    def _steps(self, owner: ClassInfo, optimizer: ast.expr) -> bool:
        calls = (node.func for node in walk(owner.node) if isinstance(node, ast.Call))
        steps = (func for func in calls if isinstance(func, ast.Attribute) and func.attr == "step")
        return any(written_alike(func.value, optimizer) for func in steps)

    def _creates(self, statement: ast.Assign, first: ast.Assign, place: ast.expr) -> bool:
        """Whether a statement creates a network as `__init__` does, from nothing older."""
        value, before = _unmoved(statement.value), _unmoved(first.value)
        if not isinstance(value, ast.Call) or not isinstance(before, ast.Call):
            return False
        if dotted(place) in names_read(statement.value):
            return False
        maker = self._maker(value)
        is_class = self.modules.kind(value) is not None and called_name(value) == called_name(before)
        return is_class or (maker != "" and maker == self._maker(before))

    def _maker(self, call: ast.Call) -> str:
        """The parameter of `__init__` that a call runs; `build` for `self.build()` after `self.build = build`."""
        method, func = self.definitions.method_around(call), call.func
        owner = method.owner if method is not None else None
        init = owner.method(_FIRST) if owner is not None else None
        if method is None or owner is None or init is None:
            return ""
        if _is_own(func, method):
            values = [item.value for item, _ in self._stores(owner, func)]
            func = values[0] if len(values) == 1 else func
        return func.id if isinstance(func, ast.Name) and func.id in init.parameters[1:] else ""

    def _is_guarded(self, made: ast.Assign, optimizer: ast.expr) -> bool:
        """`if self.optimizer is None:` around its creation."""
        test = getattr(self.tree.parent(made), "test", None)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return written_alike(test.operand, optimizer)
        is_test = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
        return is_test and isinstance(test, ast.Compare) and written_alike(test.left, optimizer)

    def _is_later(self, around: FunctionInfo, method: FunctionInfo) -> bool:
        """Whether `__init__` creates an optimizer and does not run the method that creates the network anew."""
        calls = (node for node in walk(method.node) if isinstance(node, ast.Call))
        return method.name == _FIRST and all(called_name(call) != around.name for call in calls)


def _is_own(node: ast.expr, method: FunctionInfo) -> bool:
    """`self.x`."""
    return isinstance(node, ast.Attribute) and dotted(node.value) in method.parameters[:1]


def _unmoved(node: ast.expr) -> ast.expr:
    """`build()` of `build().to(device)`."""
    return without_calls(node, _SAME)
