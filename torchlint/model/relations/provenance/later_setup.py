"""Objects of which one method loads a state, and a method that runs later creates the part anew."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.queries import names
from torchlint.model.relations.provenance.shared_modules import is_filled
from torchlint.syntax.python_ast import FUNCTIONS, Site, called_name, dotted, names_read, site_of, walk

_RESTORING = LazyPattern(r"(?i)(^|_)load(_|$)|restore|resume|recover")
"""Names of functions that may load the state after the creation."""

Loads: TypeAlias = list[tuple[ast.Call, ast.expr]]
Making: TypeAlias = Callable[[ast.stmt], dict[str, ast.AST]]


class LaterSetup:
    """Answers about `trainer.resume(path)` before `trainer.train()`, which creates the optimizer."""

    def __init__(self, definitions: Definitions, loads: Loads, making: Making) -> None:
        """`loads` are calls of `load_state_dict` with their objects; `making` gives the places a statement makes."""
        self._definitions = definitions
        self._tree = definitions.tree
        self._loads = loads
        self._making = making

    def discarded(self) -> Iterator[tuple[Site, str, Site]]:
        """The place of the creation, the name of the part, and the place of the load."""
        found: dict[Site, tuple[Site, str, Site]] = {}
        around = ((load, self._definitions.method_around(load)) for load, _ in self._loads)
        methods = {method.name for _, method in around if method is not None and method.owner is not None}
        for call in (item for item in self._tree.of_type(ast.Call) if called_name(item) in methods):
            info = self._class_of(call)
            loading = info.method(called_name(call)) if info is not None else None
            for place, load in self._loaded(loading).items() if loading is not None else ():
                made = self._made_later(call, place, info) if info is not None else None
                if made is not None and not is_filled(made, place, load, self._definitions):
                    found[site_of(made)] = site_of(made), place, site_of(load)
        yield from found.values()

    def _class_of(self, call: ast.Call) -> ClassInfo | None:
        """The class of the file of which a local variable holds a new object, in `variable.method(...)`."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        made = names.only_value(owner, self._definitions) if isinstance(owner, ast.Name) else None
        info = self._definitions.class_named(dotted(made.func)) if isinstance(made, ast.Call) else None
        return info if info is not None and info.definitions is self._definitions else None

    def _loaded(self, method: FunctionInfo) -> dict[str, ast.Call]:
        """The attributes of `self` into which a method loads a state, each with the load."""
        own = ((load, dotted(owner)) for load, owner in self._loads if self._tree.function_around(load) is method.node)
        return {place: load for load, place in own if place.startswith("self.")}

    def _made_later(self, call: ast.Call, place: str, info: ClassInfo) -> ast.AST | None:
        """The creation of an attribute by the next use of an object after a call."""
        assert isinstance(call.func, ast.Attribute)
        name = dotted(call.func.value)
        use = next((item for item in self._following(call) if name in _bases(item)), None)
        value = use.value if isinstance(use, (ast.Expr, ast.Assign, ast.Return)) else None
        func = value.func if isinstance(value, ast.Call) else None
        method = info.method(func.attr) if isinstance(func, ast.Attribute) and dotted(func.value) == name else None
        if method is None or not isinstance(value, ast.Call) or name in _bases(*value.args, *value.keywords):
            return None
        if any(map(_restores, self._reached(method, info))):
            return None
        return self._made_by(method, place, info, set())

    def _following(self, call: ast.Call) -> Iterator[ast.stmt]:
        """The statements that run after that of a call, also behind the conditions around it."""
        statement: ast.AST | None = self._tree.statement(call)
        while statement is not None:
            parent = self._tree.parent(statement)
            for block in (getattr(parent, name, None) for name in ("body", "orelse")):
                if isinstance(block, list) and statement in block:
                    yield from block[block.index(statement) + 1 :]
            statement = parent if isinstance(parent, (ast.If, ast.With)) else None

    def _made_by(self, method: FunctionInfo, place: str, info: ClassInfo, seen: set[FunctionInfo]) -> ast.AST | None:
        """The statement of a method, or of one that it calls, that creates an attribute before any use of it."""
        body = method.node.body if isinstance(method.node, FUNCTIONS) else []
        if method in seen or method.definitions is not self._definitions:
            return None
        seen.add(method)
        for statement in body:
            made = self._making(statement).get(place)
            if made is not None:
                return made
            called = self._called(statement, info)
            if isinstance(statement, ast.Expr) and len(called) == 1:
                made = self._made_by(called[0], place, info, seen)
                if made is not None:
                    return made
            reached = (function.node for each in called for function in self._reached(each, info))
            if any(self._may_use(item, place) for item in (statement, *reached)):
                return None
        return None

    def _reached(self, method: FunctionInfo, info: ClassInfo) -> list[FunctionInfo]:
        """A method, and the methods and functions of the file that it calls, in turn."""
        found, stack = dict.fromkeys([method]), [method]
        while stack:
            called = [item for item in self._called(stack.pop().node, info) if item not in found]
            found.update(dict.fromkeys(called))
            stack += called
        return list(found)

    def _called(self, node: ast.AST, info: ClassInfo) -> list[FunctionInfo]:
        """The functions of the file and methods of `self` that code calls."""
        calls = (item for item in walk(node) if isinstance(item, ast.Call))
        found = (_of_self(item, info) or names.function(item.func, self._definitions) for item in calls)
        return [item for item in found if item is not None and item.definitions is self._definitions]

    def _may_use(self, node: ast.AST, place: str) -> bool:
        """Whether code reads an attribute, binds it, or hands on the whole object."""
        for item in walk(node):
            if isinstance(item, ast.Attribute) and dotted(item) == place:
                return True
            is_self = isinstance(item, ast.Name) and item.id == "self"
            if is_self and not isinstance(self._tree.parent(item), ast.Attribute):
                return True
        return False


def _restores(function: FunctionInfo) -> bool:
    """Whether a function may load a state."""
    calls = (called_name(item) for item in walk(function.node) if isinstance(item, ast.Call))
    return any(name == "load_state_dict" or _RESTORING.search(name) for name in calls)


def _of_self(node: ast.AST, info: ClassInfo) -> FunctionInfo | None:
    """The method that `self.method(...)` calls."""
    name = dotted(node.func) if isinstance(node, ast.Call) else ""
    return info.method(name.removeprefix("self.")) if name.startswith("self.") else None


def _bases(*nodes: ast.AST) -> set[str]:
    """The first names of the expressions that code reads."""
    return {name.partition(".")[0] for node in nodes for name in names_read(node)}
