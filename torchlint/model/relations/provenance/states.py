"""States of objects: objects that load a state by `load_state_dict`, are created again, or are saved."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.queries import callees, names, variables
from torchlint.model.relations.provenance.later_setup import LaterSetup
from torchlint.model.relations.provenance.shared_modules import is_filled
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import FUNCTIONS, LOOPS, Site, called_name, dotted, names_read, site_of, start_of, walk

_MAKING = LazyPattern(r"_?(build|make|create|get|configure|init|setup|new)(_|$|[A-Z])")
"""Names of functions that create objects."""
_LOADING = LazyPattern(r"resume|restore|checkpoint|ckpt")
"""Names of functions that may load states."""
_SHOWING = frozenset({"print", "info", "debug", "log", "warning"})


class MadeAfterLoad(NamedTuple):
    """The object of a package that `made` builds from `place`, whose state `load` has loaded."""

    call: ast.Call
    """The call of the block: `made` itself, or of a function of the file that returns it."""
    made: ast.Call
    place: str
    load: Site


class States:
    """Answers about the states of a file's objects: by names, in the order of its statements."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.tree = definitions.tree

    @cached_property
    def loads(self) -> list[tuple[ast.Call, ast.expr]]:
        """The calls of `load_state_dict`, each with its object."""
        calls = FileIndex.of(self.tree).calls_named("load_state_dict")
        return [(call, call.func.value) for call in calls if isinstance(call.func, ast.Attribute) and call.args]

    @cached_property
    def saved(self) -> list[ast.expr]:
        """The objects whose `state_dict()` becomes a dictionary entry, as in checkpoints."""
        found: list[ast.expr] = []
        for call in FileIndex.of(self.tree).calls_named("state_dict"):
            if isinstance(call.func, ast.Attribute) and not call.args:
                parent = self.tree.parent(call)
                in_slot = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript)
                if isinstance(parent, (ast.Dict, ast.keyword)) or in_slot:
                    found.append(call.func.value)
        return found

    def callers(self, name: str) -> set[ast.AST]:
        """The functions of the file, or the module, that call a function of a name."""
        calls = FileIndex.of(self.tree).calls_named(name)
        return {self.tree.scope_around(call) for call in calls}

    def discarded(self) -> Iterator[tuple[Site, str, Site]]:
        """Objects created again after their state was loaded and before any use.

        Each with the place, the name of the object, and the place of the load.
        """
        for node in self.tree.nodes if self._giving_states else ():
            for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                if isinstance(block, list) and not self._giving_states.isdisjoint(block):
                    yield from self._discarded(block)
        yield from LaterSetup(self.definitions, self.loads, self._made_here).discarded()

    def _discarded(self, block: list[ast.stmt]) -> Iterator[tuple[Site, str, Site]]:
        loaded: dict[str, ast.AST] = {}
        for statement in block:
            made = self._made(statement) if loaded else {}
            for place in [item for item in loaded if item in made]:
                load = loaded.pop(place)
                if self._may_exist(place, load) and not is_filled(made[place], place, load, self.definitions):
                    yield site_of(made[place]), place, site_of(load)
            for place in [item for item in loaded if self._uses(statement, item)]:
                del loaded[place]
            if statement in self._giving_states and not isinstance(statement, (*LOOPS, *FUNCTIONS, ast.ClassDef)):
                loaded.update(self._loaded(statement))

    def _may_exist(self, place: str, load: ast.AST) -> bool:
        """Whether a variable may have a value where its state is loaded: otherwise, the load already raises."""
        bound = variables.bindings(place, load, self.definitions) if "." not in place else []
        function = self.definitions.function_around(load)
        if not bound or function is None or variables.is_parameter(place, load, self.definitions):
            return True
        in_loop = any(isinstance(item, LOOPS) for item in self.tree.ancestors(load))
        is_before = any(start_of(item) < start_of(load) for item in bound)
        return in_loop or is_before or variables.is_shared(place, self.definitions)

    def made_after_load(self, classes: str) -> Iterator[MadeAfterLoad]:
        """Objects built from an object whose state an earlier statement of the same block loaded."""
        for node in self.tree.nodes:
            for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                loaded: dict[str, ast.AST] = {}
                for statement in block if isinstance(block, list) and self.loads else ():
                    for call in (item for item in walk(statement) if isinstance(item, ast.Call) and loaded):
                        yield from self._made_from(call, loaded, classes)
                    if not isinstance(statement, (*LOOPS, *FUNCTIONS, ast.ClassDef)):
                        loaded.update(self._loaded(statement))

    def _made_from(self, call: ast.Call, loaded: dict[str, ast.AST], classes: str) -> Iterator[MadeAfterLoad]:
        """The object of the package that a call builds from a loaded one, itself or in a function that returns it."""
        if self.definitions.named(call.func).startswith(classes):
            place = dotted(call.args[0]) if call.args else ""
            if place in loaded:
                yield MadeAfterLoad(call, call, place, site_of(loaded[place]))
            return
        if not any(dotted(item) in loaded for item in (*call.args, *(each.value for each in call.keywords))):
            return
        called = names.function(call.func, self.definitions)
        made = self._returned(called, classes) if called is not None else None
        place = dotted(callees.arguments(call, called).get(dotted(made.args[0]))) if made is not None else ""
        if made is not None and place in loaded:
            yield MadeAfterLoad(call, made, place, site_of(loaded[place]))

    def _returned(self, function: FunctionInfo, classes: str) -> ast.Call | None:
        """The only object of a package that a function makes, if it returns it, perhaps in a wrapper."""
        made = [
            item
            for item in walk(function.node)
            if isinstance(item, ast.Call) and item.args and function.definitions.named(item.func).startswith(classes)
        ]
        value = names.returned_value(function) if len(made) == 1 else None
        if isinstance(value, ast.Name):
            value = names.only_value(value, function.definitions)
        is_wrapped = isinstance(value, ast.Call) and self.is_of_file(value) and made[0] in value.args
        return made[0] if made and (value is made[0] or is_wrapped) else None

    def is_of_file(self, call: ast.Call) -> bool:
        """Whether a call makes an object of a class of the file."""
        found = self.definitions.defined(dotted(call.func))
        return isinstance(found, ClassInfo) and found.definitions is self.definitions

    def _loaded(self, statement: ast.stmt) -> dict[str, ast.AST]:
        """The names of objects for which a statement only loads a state."""
        found: dict[str, ast.AST] = {}
        for call in (item for item in walk(statement) if isinstance(item, ast.Call)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if called_name(call) == "load_state_dict" and owner is not None:
                found[dotted(owner)] = call
                continue
            called = self._loading(call)
            given = callees.arguments(call, called) if called is not None else {}
            for place in self._loaded_in(called) if called is not None else ():
                outside = place if place.startswith("self.") else dotted(given.get(place))
                found[outside] = call
        return {place: call for place, call in found.items() if place and not any(self._mentions(statement, place))}

    @cached_property
    def _giving_states(self) -> set[ast.AST]:
        """The nodes in which an object loads a state, or may get one from a function of the file."""
        names = {"load_state_dict", *self._loading_names}
        calls = (
            call
            for call in self.tree.of_type(ast.Call)
            if called_name(call) in names or self._imported(call) is not None
        )
        return {node for call in calls for node in self.tree.ancestors(call)}

    @cached_property
    def _loading_names(self) -> set[str]:
        """The names of the functions that load a state into an object."""
        around = (self.definitions.function_around(call) for call, _ in self.loads)
        return {function.name for function in around if function is not None and function.name != "__init__"}

    def _loading(self, call: ast.Call) -> FunctionInfo | None:
        """The function of the file that a call runs, if that loads a state into an object."""
        if called_name(call) in self._loading_names:
            return names.function(call.func, self.definitions)
        return self._imported(call)

    def _imported(self, call: ast.Call) -> FunctionInfo | None:
        """The function of another file that a call runs, if it is named for loading."""
        if not isinstance(call.func, (ast.Name, ast.Attribute)) or not _LOADING.search(called_name(call)):
            return None
        found = self.definitions.defined(dotted(call.func))
        is_other = isinstance(found, FunctionInfo) and found.definitions is not self.definitions
        return found if is_other and isinstance(found, FunctionInfo) and not found.is_method else None

    def _loaded_in(self, function: FunctionInfo) -> set[str]:
        """The parameters and attributes of `self` into which a function loads a state."""
        if function.definitions is not self.definitions:
            return States(function.definitions)._loaded_in(function)
        own = [owner for call, owner in self.loads if self.tree.function_around(call) is function.node]
        places = {dotted(owner) for owner in own if not isinstance(owner, ast.Subscript)}
        return {place for place in places if place in function.parameters or place.startswith("self.")}

    def _made(self, statement: ast.stmt) -> dict[str, ast.AST]:
        """The names that a statement surely binds to a new object, not built from the same name."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = names.function(statement.value.func, self.definitions)
            body = called.node.body if called is not None and isinstance(called.node, FUNCTIONS) else []
            inner = {place: node for item in body for place, node in self._made_here(item).items()}
            return {place: statement for place in inner if place.startswith("self.") and not _is_used(body, place)}
        return self._made_here(statement)

    def _made_here(self, statement: ast.stmt) -> dict[str, ast.AST]:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return {}
        value = statement.value
        if not isinstance(value, ast.Call) or not _makes(value):
            return {}
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        flat = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
        read = names_read(value)
        places = {dotted(item): item for item in flat if not isinstance(item, ast.Subscript)}
        return {place: node for place, node in places.items() if place and not _reads(read, place)}

    def _uses(self, statement: ast.stmt, place: str) -> bool:
        """Whether a statement uses an object, or may: by a method of `self`, or of its holder."""
        if any(self._mentions(statement, place)):
            return True
        owner = place.rpartition(".")[0]
        if not owner:
            return False
        for node in walk(statement):
            if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) == owner:
                around = self.tree.parent(node)
                if not isinstance(around, ast.Attribute) or self._method_uses(around, place):
                    return True
        return False

    def _method_uses(self, method: ast.Attribute, place: str) -> bool:
        called = names.function(method, self.definitions)
        if called is None:
            return isinstance(self.tree.parent(method), ast.Call)
        return any(self._mentions(called.node, place))

    def _mentions(self, root: ast.AST, place: str) -> Iterator[ast.AST]:
        """The uses of an object, except loading its state or printing it."""
        for node in walk(root):
            if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) == place:
                around = self.tree.parent(node)
                call = self.tree.parent(around) if around is not None else None
                if isinstance(around, ast.Attribute) and around.attr == "load_state_dict":
                    continue
                shown = around if isinstance(around, ast.Call) else call
                if isinstance(shown, ast.Call) and (called_name(shown) in _SHOWING or self._only_loads(shown)):
                    continue
                yield node

    def _only_loads(self, call: ast.Call) -> bool:
        """Whether a call of a function of the file only loads states into objects."""
        called = self._loading(call)
        return called is not None and bool(self._loaded_in(called))


def _makes(call: ast.Call) -> bool:
    """Whether a call creates an object, by the name of the class or function."""
    name = called_name(call)
    while name in ("to", "cuda", "eval", "train", "float", "half") and isinstance(call.func, ast.Attribute):
        if not isinstance(call.func.value, ast.Call):
            return False
        call = call.func.value
        name = called_name(call)
    return naming.is_class_name(name) or name == "SGD" or bool(_MAKING.match(name))


def _is_used(body: Iterable[ast.stmt], place: str) -> bool:
    """Whether statements read an object before they bind it."""
    for statement in body:
        read = names_read(statement.value) if isinstance(statement, ast.Assign) else names_read(statement)
        if _reads(read, place):
            return True
        if isinstance(statement, ast.Assign) and any(dotted(target) == place for target in statement.targets):
            return False
    return False


def _reads(read: set[str], place: str) -> bool:
    return any(name == place or name.startswith(f"{place}.") for name in read)
