"""Places that store state dictionaries by reference, and their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from torchlint import Model
from torchlint.model.queries import names
from torchlint.syntax.python_ast import FUNCTIONS, called_name, dotted, names_read, site_of, walk
from torchlint.syntax.python_tree import PythonTree

_SHALLOW = frozenset({"dict", "OrderedDict", "copy", "items"})
"""Calls that return the same tensors as their input."""
DEEP = frozenset({"deepcopy", "clone", "copy_", "pickle", "dumps"})
_READING = frozenset({"print", "len", "isinstance", "type", "id", "info", "debug"})
"""Calls that do not change their arguments."""
_LOOKED_INTO = frozenset({"items", "values", "update", "pop", "popitem", "clear", "setdefault"})
"""Methods of a dictionary through which code may replace its values one by one."""
_SAME_TENSOR = frozenset({"detach", "data"})


class Unclear(Exception):
    """Some code may copy or replace the stored tensors."""


@dataclass
class Store:
    """A call of `state_dict()`, and the places that store its result."""

    node: ast.Call
    loop: ast.AST
    scope: ast.AST
    places: list[str] = field(default_factory=list)
    others: set[ast.AST] = field(default_factory=set)
    """Other calls of `state_dict()` stored in the same places."""
    uses: dict[ast.AST, str] = field(default_factory=dict)
    aliases: set[ast.AST] = field(default_factory=set)
    """The values of the statements that store it."""
    is_one_of_many: bool = False
    """Whether each iteration stores at its own index, and keeps the entries of the others."""


class StateDictPlaces:
    """Finds the places that store a state dictionary, from the code around the call."""

    def __init__(self, model: Model) -> None:
        self.tree = model.tree
        self.definitions = model.definitions

    def store(self, node: ast.Call, loop: ast.AST) -> Store | None:
        """The places that store a state dictionary, and their uses; None where nothing stores it."""
        target, value = self._target(node)
        place = _place(target)
        if target is None or not place:
            return None
        store = Store(node, loop, self._scope(place, node))
        if "." not in place and store.scope not in (self.tree.module, *self.tree.ancestors(loop)):
            return None  # a variable of a function that the loop calls
        if store.scope is self.tree.module and self.definitions.function_around(node) is not None:
            return None
        if isinstance(loop, ast.While) and place in names_read(loop.test):
            return None  # the stored value ends the loop
        if value is not None:
            store.aliases.add(value)
        if isinstance(loop, (ast.For, ast.AsyncFor)) and isinstance(target, ast.Subscript):
            store.is_one_of_many = not names_read(loop.target).isdisjoint(names_read(target.slice))
        store.places.append(place)
        for place in store.places:  # this list grows with new names
            for mention in self._mentions(place, store.scope):
                self._look_at(mention, place, store)
        if isinstance(store.scope, ast.ClassDef) and place.startswith("self."):
            self._look_outside(place.removeprefix("self."), store.scope, store)
        return store

    def _look_outside(self, attribute: str, owner: ast.ClassDef, store: Store) -> None:
        """Check an attribute where objects of its class have names: `stopper.best` of `stopper = Stopper()`."""
        calls = (item for item in self.tree.of_type(ast.Assign) if isinstance(item.value, ast.Call))
        made = (item.targets for item in calls if called_name(item.value) == owner.name)
        places = {f"{dotted(target)}.{attribute}" for targets in made for target in targets if dotted(target)}
        for mention in self.tree.of_type(ast.Attribute):
            if mention.attr == attribute and (place := dotted(mention)) in places:
                self._look_at(mention, place, store)

    def _scope(self, place: str, node: ast.AST) -> ast.AST:
        """The scope of all uses of a place: the class of an attribute, the function of a variable."""
        kinds: tuple[type[ast.AST], ...] = (ast.ClassDef,) if place.startswith("self.") else (*FUNCTIONS, ast.Lambda)
        return next((item for item in self.tree.ancestors(node) if isinstance(item, kinds)), self.tree.module)

    def _mentions(self, place: str, scope: ast.AST) -> Iterator[ast.expr]:
        for item in walk(scope):
            if isinstance(item, (ast.Global, ast.Nonlocal)) and place in item.names:
                raise Unclear
            if isinstance(item, (ast.Name, ast.Attribute)) and dotted(item) == place:
                yield item

    def _target(self, node: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
        """The assignment target of an expression, possibly in a dictionary or a shallow copy, with its value."""
        while True:
            parent = self.tree.parent(node)
            if isinstance(parent, (ast.Assign, ast.AnnAssign)):
                targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
                return (targets[0], node) if len(targets) == 1 and parent.value is node else (None, None)
            if isinstance(parent, ast.Tuple):
                return self._element_target(parent, node), node
            around = wrapper(node, self.tree)
            if around is None:
                return None, None
            node = around

    def _element_target(self, values: ast.Tuple, node: ast.expr) -> ast.expr | None:
        """`best` of `accuracy, best = x, model.state_dict()`."""
        parent = self.tree.parent(values)
        target = parent.targets[0] if isinstance(parent, ast.Assign) and parent.value is values else None
        if not isinstance(target, ast.Tuple) or len(target.elts) != len(values.elts):
            return None
        return target.elts[values.elts.index(node)]

    # -- what is done with it -----------------------------------------------------------------------

    def _look_at(self, mention: ast.expr, place: str, store: Store) -> None:
        """Record a use or another name; raise where the code copies it or reassigns the place."""
        node: ast.expr = mention
        parent = self.tree.parent(node)
        if self._is_bound_anew(mention, place, store):
            return
        while isinstance(parent, ast.Subscript) and parent.value is node:
            if not isinstance(parent.slice, ast.Constant) and not self._is_stored_at(parent, store):
                raise Unclear
            node, parent = parent, self.tree.parent(parent)
        if isinstance(getattr(node, "ctx", None), ast.Del):
            raise Unclear
        if isinstance(getattr(node, "ctx", None), ast.Store):
            self._look_at_store(node, place, store)
            return
        if isinstance(parent, ast.Attribute) and parent.attr in _LOOKED_INTO and self.is_in_loop(node, store):
            raise Unclear
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension, ast.NamedExpr, ast.withitem)):
            raise Unclear
        self._follow(node, store)

    def _is_bound_anew(self, mention: ast.expr, place: str, store: Store) -> bool:
        """Whether a name is read after the loop, and reassigned in between."""
        statement = self.tree.statement(mention)
        if self.is_in_loop(mention, store) or isinstance(getattr(mention, "ctx", None), ast.Store):
            return False
        around = [statement, *(item for item in self.tree.ancestors(statement) if isinstance(item, ast.stmt))]
        before = (item for inner in around for item in self.tree.before(inner) if not isinstance(inner, FUNCTIONS))
        assigned = (item for item in before if isinstance(item, ast.Assign) and item.lineno > store.node.lineno)
        behind = (item for item in assigned if not self.is_in_loop(item, store))
        return any(dotted(target) == place for item in behind for target in item.targets)

    def _follow(self, node: ast.expr, store: Store) -> None:
        """Record the uses of an expression that holds the stored tensors."""
        while True:
            parent = self.tree.parent(node)
            if isinstance(parent, ast.Call) and node in parent.args:
                name = called_name(parent)
                if name in DEEP and self.is_in_loop(node, store):
                    raise Unclear
                if name == "load_state_dict" and parent.args[0] is node:
                    store.uses[parent] = "loaded"
                elif self.definitions.named(parent.func) == "torch.save" and parent.args[0] is node:
                    store.uses[parent] = "saved"
                elif name in DEEP:
                    node = parent
                    continue
                elif name not in _SHALLOW | _READING and self.is_in_loop(node, store):
                    raise Unclear
            elif isinstance(parent, ast.Return):
                store.uses[parent] = "returned"
            elif isinstance(parent, ast.Tuple) and isinstance(around := self.tree.parent(parent), ast.Return):
                store.uses[around] = "returned"
            outer = wrapper(node, self.tree)
            if outer is None:
                break
            node = outer
        target, value = self._target(node)
        name = _place(target)
        if name and value is not None and name not in store.places:
            if self._scope(name, node) is not store.scope:
                raise Unclear
            store.aliases.add(value)
            store.places.append(name)
        elif value is not None:
            store.aliases.add(value)

    def _look_at_store(self, target: ast.expr, place: str, store: Store) -> None:
        value = self.value_for(target)
        if value is None:
            raise Unclear
        if value in store.aliases:
            return
        references = [item for item in walk(value) if isinstance(item, ast.Call) and is_state_dict(item)]
        kept = [item for item in references if self._target(item)[0] is target]
        if isinstance(target, ast.Subscript) and not kept and not self._copies(value, place):
            return  # another entry of a dictionary
        if kept and not any(called_name(item) in DEEP for item in walk(value) if isinstance(item, ast.Call)):
            store.others.update(kept)
        elif not self._is_before(target, store):
            raise Unclear

    def _copies(self, value: ast.expr, place: str) -> bool:
        calls = {called_name(item) for item in walk(value) if isinstance(item, ast.Call)}
        return not calls.isdisjoint(DEEP) or place in names_read(value)

    def value_for(self, target: ast.expr) -> ast.expr | None:
        """The value that a statement assigns to a target; None where it is not explicit."""
        return names.bound_value(target, self.tree)

    def _is_before(self, target: ast.expr, store: Store) -> bool:
        """Whether a place is assigned before the loop: not in it, and not after it."""
        function, around = (self.definitions.function_around(item) for item in (target, store.loop))
        if function is around:
            return site_of(target).line < site_of(store.loop).line
        return function is not None and function.name == "__init__"

    def _is_stored_at(self, subscript: ast.Subscript, store: Store) -> bool:
        """Whether the state dictionary is stored at an index, such as that of a fold."""
        return isinstance(subscript.ctx, ast.Store) and self.value_for(subscript) in store.aliases

    def is_in_loop(self, node: ast.AST, store: Store) -> bool:
        """Whether a node runs in the loop, as far as its name or place shows."""
        if store.loop in self.tree.ancestors(node):
            return True
        function = self.definitions.function_around(node)
        if function is self.definitions.function_around(store.loop):
            return False
        return function is None or function.node in self.run_in(store.loop, store.node)

    def run_in(self, loop: ast.AST, node: ast.AST) -> list[ast.AST]:
        """A loop, the function around a node in it, and the functions of the file that these call, by their names."""
        around = self.definitions.function_around(node)
        is_within = around is self.definitions.function_around(loop)
        found = [loop] if around is None or is_within else [loop, around.node]
        for region in found:  # this list grows with the called functions
            names = {called_name(item) for item in walk(region) if isinstance(item, ast.Call)}
            called = [function for name in sorted(names) for function in self._functions.get(name, ())]
            found += [function for function in dict.fromkeys(called) if function not in found]
        return found

    @cached_property
    def _functions(self) -> dict[str, list[ast.AST]]:
        found: dict[str, list[ast.AST]] = {}
        for info in self.definitions.functions.values():
            found.setdefault(info.name, []).append(info.node)
        return found


def is_state_dict(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "state_dict" and not call.args


def wrapper(node: ast.expr, tree: PythonTree) -> ast.expr | None:
    """The expression around another that holds the same tensors; None where there is none."""
    parent = tree.parent(node)
    around = tree.parent(parent) if parent is not None else None
    if isinstance(parent, ast.Attribute) and isinstance(around, ast.Call) and around.func is parent:
        return around if parent.attr in ("copy", "items") and not around.args else None
    if isinstance(parent, ast.keyword) and isinstance(around, ast.Call):
        return around if called_name(around) == "dict" else None
    if isinstance(parent, ast.Call) and node in parent.args:
        return parent if called_name(parent) in _SHALLOW else None
    if isinstance(parent, ast.Dict):
        return parent if node in parent.values else None
    if isinstance(parent, ast.IfExp):
        return parent if node is not parent.test else None
    if isinstance(parent, ast.comprehension) and isinstance(around, ast.DictComp) and parent.iter is node:
        return around if _keeps_tensors(around) else None
    return None


def _place(target: ast.expr | None) -> str:
    """The variable or attribute that a target is, or whose entry it is."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return dotted(target)


def _keeps_tensors(comprehension: ast.DictComp) -> bool:
    """`{k: v for k, v in ...}`, `{k: v.detach() for k, v in ...}`."""
    names = names_read(comprehension.generators[0].target)
    value: ast.expr = comprehension.value
    while isinstance(value, (ast.Call, ast.Attribute)):
        if isinstance(value, ast.Attribute) and value.attr not in _SAME_TENSOR:
            return False
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id in names
