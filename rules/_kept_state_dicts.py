"""State dictionaries that are kept by reference across steps, and used after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from torchlint import Model
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import dataflow, events
from torchlint.model.module_values import is_module_like
from torchlint.model.program import Trace
from torchlint.model.values import (
    Container,
    Optimizer,
    Parameters,
    Phi,
    Unknown,
    Utility,
    Value,
    inputs_of,
    resolved,
)
from torchlint.syntax.python_ast import (
    FUNCTIONS,
    LOOPS,
    Site,
    arguments,
    called_name,
    dotted,
    names_read,
    site_of,
    walk,
)

_SHALLOW = frozenset({"dict", "OrderedDict", "copy", "items"})
"""Calls that give the same tensors as they are given."""
_DEEP = frozenset({"deepcopy", "clone", "copy_", "pickle", "dumps"})
_READING = frozenset({"print", "len", "isinstance", "type", "id", "info", "debug"})
"""Calls that leave what they are handed as it is."""
_LOOKED_INTO = frozenset({"items", "values", "update", "pop", "popitem", "clear", "setdefault"})
"""Methods of a dictionary with which its values may be replaced, one by one."""
_SAME_TENSOR = frozenset({"detach", "data"})
_SWAPPING = frozenset("apply_shadow average_parameters copy_to swap swap_parameters store restore".split())
"""Methods that may put other tensors into a model and take them out again, as averages of weights do."""
_ASIDE = LazyPattern(r"optim|sched|scaler|ema|target|teacher|averag|swa|frozen|reference")
"""Names of what an optimizer that nobody knows may not step."""
_FIRST = (0, 1)


class KeptReference(NamedTuple):
    """`place` keeps what `state_dict()` of `model` gives at `site`; it is `verb` (loaded, ...) at `use`."""

    site: Site
    model: str
    place: str
    use: Site
    verb: str


class _Unclear(Exception):
    """Something may copy what is kept, or replace it."""


@dataclass
class _Store:
    """A call of `state_dict()`, and the places that keep what it gives."""

    node: ast.Call
    loop: ast.AST
    scope: ast.AST
    places: list[str] = field(default_factory=list)
    others: set[ast.AST] = field(default_factory=set)
    """Other calls of `state_dict()` that are kept in the same places."""
    uses: dict[ast.AST, str] = field(default_factory=dict)
    aliases: set[ast.AST] = field(default_factory=set)
    """The values of the statements that store it."""
    is_one_of_many: bool = False
    """Whether each iteration stores at an index of its own, and leaves there what the others have stored."""


class KeptReferences:
    """Answers about state dictionaries that are kept by reference."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree
        self.definitions = model.definitions

    def answers(self) -> Iterator[KeptReference]:
        for trace in self.model.program.traces:
            for call in trace.of(events.Call):
                node = self.tree.own_node(call.site)
                if isinstance(node, ast.Call) and _is_state_dict(node) and call.value.parents:
                    kept = self._kept(trace, call, node)
                    if kept is not None:
                        yield kept

    def _kept(self, trace: Trace, call: events.Call, node: ast.Call) -> KeptReference | None:
        owner = resolved(call.value.parents[0])
        loop = self._training_loop(trace, call, owner)
        around = self.tree.own_node(loop.site) if loop is not None else None
        if loop is None or around is None or not isinstance(around, LOOPS) or self._may_be_moved(node, around):
            return None
        if self._is_another_each_time(self.tree.own_node(call.place_in(loop)), around):
            return None
        try:
            store = self._store(node, around)
        except _Unclear:
            return None
        if store is None or not store.uses or self._is_for_the_end(node, around):
            return None
        use = self._stale_use(trace, loop, store, owner)
        if use is None:
            return None
        assert isinstance(node.func, ast.Attribute)
        return KeptReference(
            site_of(node), self.tree.code(node.func.value), store.places[0], site_of(use), store.uses[use]
        )

    # -- the model, and the loop that trains it -----------------------------------------------------

    def _training_loop(self, trace: Trace, call: events.Call, owner: Value) -> events.Loop | None:
        """The innermost loop around a call in which an optimizer steps on a model that is older than its iterations."""
        made_in = {loop for item in inputs_of(_whole(owner)) for loop in item.loops}
        for depth in range(len(call.loops), 0, -1):
            loop = call.loops[depth - 1]
            if not loop.implicit and loop not in made_in:
                if any(self._steps(step, owner) for step in trace.of(events.Step, call.loops[:depth])):
                    return loop
        return None

    def _steps(self, step: events.Step, owner: Value) -> bool:
        """Whether a step changes a model: one of an optimizer that the file does not make is taken for the model's."""
        held, complete = self.model.ownership.held_by(resolved(step.optimizer))
        owners = set(inputs_of(owner))
        if any(isinstance(item, (Optimizer, Utility)) or item in self.model.ownership.stepped for item in owners):
            return False
        if self.model.ownership.overlap(held, owners) or not owners.isdisjoint(_given(step.optimizer)):
            return True
        is_made_here = complete or held or isinstance(resolved(step.optimizer), Optimizer)
        is_aside = any(_ASIDE.search(item.label.lower()) for item in (owner, _whole(owner)))
        return not is_made_here and is_module_like(owner) and not is_aside

    def _is_another_each_time(self, call: ast.AST | None, loop: ast.AST) -> bool:
        """Whether the loop binds what holds the model: to a client of many, or to a model that it makes."""
        parts = [call.func, *arguments(call)] if isinstance(call, ast.Call) else []
        roots = {dotted(part).partition(".")[0] for part in parts if isinstance(part, ast.Attribute)} - {""}
        names = (item for item in walk(loop) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))
        return call is None or any(name.id in roots and not self._passes_on(name) for name in names)

    def _passes_on(self, name: ast.Name) -> bool:
        """`model = train_epoch(model, loader)`."""
        value = self._value_for(name)
        return isinstance(value, ast.Call) and name.id in names_read(value) and called_name(value) not in _DEEP

    def _may_be_moved(self, node: ast.Call, loop: ast.AST) -> bool:
        """Whether the model gets other tensors in the loop: by a move to the CPU and back, or as an average."""
        assert isinstance(node.func, ast.Attribute)
        if not dotted(node.func.value):
            return True
        if any(isinstance(item, ast.With) and "state_dict" in self._header(item) for item in self.tree.ancestors(node)):
            return True
        calls = [item for region in self._run_in(loop, node) for item in walk(region) if isinstance(item, ast.Call)]
        names = set(dotted(node.func.value).split(".")) - {"self", "module"}
        moves = [item for item in calls if called_name(item) in ("cpu", "to") and _is_named(item.func, names)]
        places = {ast.dump(place) for move in moves for place in arguments(move)[:1]}
        is_moved = len(places) > 1 or any(called_name(move) == "cpu" or _is_cpu(move) for move in moves)
        return is_moved or any(called_name(item) in _SWAPPING for item in calls)

    def _header(self, block: ast.With) -> str:
        return " ".join(self.tree.code(item.context_expr) for item in block.items)

    def _is_for_the_end(self, node: ast.AST, loop: ast.AST) -> bool:
        """Whether a condition on how far the loop has come decides alone, so that no step may follow."""
        targets = set(names_read(loop.target)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
        counters = {dotted(item.target) for item in walk(loop) if isinstance(item, ast.AugAssign) and _counts(item)}
        inside = takewhile(lambda item: item is not loop, self.tree.ancestors(node))
        tests = [item.test for item in inside if isinstance(item, (ast.If, ast.IfExp))]
        return any(_asks_for_end(test, targets, counters) for test in tests)

    # -- where it is kept ---------------------------------------------------------------------------

    def _store(self, node: ast.Call, loop: ast.AST) -> _Store | None:
        """The places that keep a state dictionary, and their uses; None where it is kept nowhere."""
        target, value = self._target(node)
        place = _place(target)
        if target is None or not place:
            return None
        store = _Store(node, loop, self._scope(place, node))
        if "." not in place and store.scope not in (self.tree.module, *self.tree.ancestors(loop)):
            return None  # a variable of a function that the loop calls
        if store.scope is self.tree.module and self.definitions.function_around(node) is not None:
            return None
        if value is not None:
            store.aliases.add(value)
        if isinstance(loop, (ast.For, ast.AsyncFor)) and isinstance(target, ast.Subscript):
            store.is_one_of_many = not names_read(loop.target).isdisjoint(names_read(target.slice))
        store.places.append(place)
        for place in store.places:  # grows with the names that it is given
            for mention in self._mentions(place, store.scope):
                self._look_at(mention, place, store)
        return store

    def _scope(self, place: str, node: ast.AST) -> ast.AST:
        """What holds all that is done with a place: the class of an attribute, the function of a variable."""
        kinds: tuple[type[ast.AST], ...] = (ast.ClassDef,) if place.startswith("self.") else (*FUNCTIONS, ast.Lambda)
        return next((item for item in self.tree.ancestors(node) if isinstance(item, kinds)), self.tree.module)

    def _mentions(self, place: str, scope: ast.AST) -> Iterator[ast.expr]:
        for item in walk(scope):
            if isinstance(item, (ast.Global, ast.Nonlocal)) and place in item.names:
                raise _Unclear
            if isinstance(item, (ast.Name, ast.Attribute)) and dotted(item) == place:
                yield item

    def _target(self, node: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
        """What an expression is assigned to, perhaps in a dictionary or a shallow copy; and what is assigned."""
        while True:
            parent = self.tree.parent(node)
            if isinstance(parent, (ast.Assign, ast.AnnAssign)):
                targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
                return (targets[0], node) if len(targets) == 1 and parent.value is node else (None, None)
            if isinstance(parent, ast.Tuple):
                return self._element_target(parent, node), node
            wrapper = self._wrapper(node)
            if wrapper is None:
                return None, None
            node = wrapper

    def _element_target(self, values: ast.Tuple, node: ast.expr) -> ast.expr | None:
        """`best` of `accuracy, best = x, model.state_dict()`."""
        parent = self.tree.parent(values)
        target = parent.targets[0] if isinstance(parent, ast.Assign) and parent.value is values else None
        if not isinstance(target, ast.Tuple) or len(target.elts) != len(values.elts):
            return None
        return target.elts[values.elts.index(node)]

    def _wrapper(self, node: ast.expr) -> ast.expr | None:
        """The expression around another that holds the same tensors; None where there is none."""
        parent = self.tree.parent(node)
        around = self.tree.parent(parent) if parent is not None else None
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

    # -- what is done with it -----------------------------------------------------------------------

    def _look_at(self, mention: ast.expr, place: str, store: _Store) -> None:
        """Note a use or another name; raise where it is copied, or the place gets something else."""
        node: ast.expr = mention
        parent = self.tree.parent(node)
        while isinstance(parent, ast.Subscript) and parent.value is node:
            if not isinstance(parent.slice, ast.Constant) and not self._is_stored_at(parent, store):
                raise _Unclear
            node, parent = parent, self.tree.parent(parent)
        if isinstance(getattr(node, "ctx", None), ast.Del):
            raise _Unclear
        if isinstance(getattr(node, "ctx", None), ast.Store):
            self._look_at_store(node, place, store)
            return
        if isinstance(parent, ast.Attribute) and parent.attr in _LOOKED_INTO and self._is_in_loop(node, store):
            raise _Unclear
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension, ast.NamedExpr, ast.withitem)):
            raise _Unclear
        self._follow(node, store)

    def _follow(self, node: ast.expr, store: _Store) -> None:
        """Note what an expression that holds the kept tensors is used for."""
        while True:
            parent = self.tree.parent(node)
            if isinstance(parent, ast.Call) and node in parent.args:
                name = called_name(parent)
                if name in _DEEP and self._is_in_loop(node, store):
                    raise _Unclear
                if name == "load_state_dict" and parent.args[0] is node:
                    store.uses[parent] = "loaded"
                elif self.definitions.named(parent.func) == "torch.save" and parent.args[0] is node:
                    store.uses[parent] = "saved"
                elif name in _DEEP:
                    node = parent
                    continue
                elif name not in _SHALLOW | _READING and self._is_in_loop(node, store):
                    raise _Unclear
            elif isinstance(parent, ast.Return):
                store.uses[parent] = "returned"
            elif isinstance(parent, ast.Tuple) and isinstance(around := self.tree.parent(parent), ast.Return):
                store.uses[around] = "returned"
            wrapper = self._wrapper(node)
            if wrapper is None:
                break
            node = wrapper
        target, value = self._target(node)
        name = _place(target)
        if name and value is not None and name not in store.places:
            if self._scope(name, node) is not store.scope:
                raise _Unclear
            store.aliases.add(value)
            store.places.append(name)
        elif value is not None:
            store.aliases.add(value)

    def _look_at_store(self, target: ast.expr, place: str, store: _Store) -> None:
        value = self._value_for(target)
        if value is None or value in store.aliases:
            if value is None:
                raise _Unclear
            return
        references = [item for item in walk(value) if isinstance(item, ast.Call) and _is_state_dict(item)]
        kept = [item for item in references if self._target(item)[0] is target]
        if isinstance(target, ast.Subscript) and not kept and not self._copies(value, place):
            return  # another entry of a dictionary
        if kept and not any(called_name(item) in _DEEP for item in walk(value) if isinstance(item, ast.Call)):
            store.others.update(kept)
        elif not self._is_before(target, store):
            raise _Unclear

    def _copies(self, value: ast.expr, place: str) -> bool:
        calls = {called_name(item) for item in walk(value) if isinstance(item, ast.Call)}
        return not calls.isdisjoint(_DEEP) or place in names_read(value)

    def _value_for(self, target: ast.expr) -> ast.expr | None:
        """What a statement assigns to a target; None where that is not written there."""
        parent = self.tree.parent(target)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            return parent.value
        around = self.tree.parent(parent) if parent is not None else None
        if isinstance(parent, ast.Tuple) and isinstance(around, ast.Assign) and isinstance(around.value, ast.Tuple):
            if len(parent.elts) == len(around.value.elts):
                return around.value.elts[parent.elts.index(target)]
        return None

    def _is_before(self, target: ast.expr, store: _Store) -> bool:
        """Whether a place gets something before the loop begins: not in it, and not after it."""
        function, around = (self.definitions.function_around(item) for item in (target, store.loop))
        if function is around:
            return site_of(target).line < site_of(store.loop).line
        return function is not None and function.name == "__init__"

    def _is_stored_at(self, subscript: ast.Subscript, store: _Store) -> bool:
        """Whether the state dictionary is stored at an index, as of a fold."""
        return isinstance(subscript.ctx, ast.Store) and self._value_for(subscript) in store.aliases

    def _is_in_loop(self, node: ast.AST, store: _Store) -> bool:
        """Whether a node is run in the loop, as far as its name or place says."""
        if store.loop in self.tree.ancestors(node):
            return True
        function = self.definitions.function_around(node)
        if function is self.definitions.function_around(store.loop):
            return False
        return function is None or function.node in self._run_in(store.loop, store.node)

    def _run_in(self, loop: ast.AST, node: ast.AST) -> list[ast.AST]:
        """A loop, the function around a node in it, and the functions of the file that these call, by their names."""
        around = self.definitions.function_around(node)
        is_within = around is self.definitions.function_around(loop)
        found = [loop] if around is None or is_within else [loop, around.node]
        for region in found:  # grows with what is called there
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

    # -- when it is used ----------------------------------------------------------------------------

    def _stale_use(self, trace: Trace, loop: events.Loop, store: _Store, owner: Value) -> ast.AST | None:
        """The first use to which a path leads from the call through a step."""
        arrivals: dict[ast.AST, set[bool | None]] = {}

        def transfer(event: events.Event, states: frozenset[bool | None]) -> frozenset[bool | None]:
            node = self.tree.own_node(event.site)
            if node in store.uses and isinstance(event, (events.Call, events.Returned)):
                arrivals.setdefault(node, set()).update(states)
            elif node is store.node and isinstance(event, events.Call):
                return states | {False} if store.is_one_of_many else frozenset({False})
            elif node in store.others:
                return frozenset({None})
            elif isinstance(event, events.Step) and False in states and self._steps(event, owner):
                return states - {False} | {True}
            return states

        ends = dataflow.Flow(transfer).run([loop], frozenset({None}))
        for use in store.uses:
            if True in arrivals.get(use, ()) or (True in ends and use not in arrivals and self._is_after(use, store)):
                return use
        return None

    def _is_after(self, use: ast.AST, store: _Store) -> bool:
        if self._is_in_loop(use, store):
            return False
        function, around = (self.definitions.function_around(item) for item in (use, store.loop))
        return function is not around or site_of(use).line > site_of(store.loop).line


def _given(optimizer: Value) -> set[Value]:
    """What the parameters that an optimizer was made with are of, whatever that is."""
    found: set[Value] = set()
    stack = [optimizer]
    while stack:
        item = stack.pop()
        if item not in found:
            found.add(item)
            if isinstance(item, (Optimizer, Parameters, Phi)):
                stack.extend(item.parents)
            elif isinstance(item, Container):
                stack.extend(item.elements())
    return found


def _whole(value: Value) -> Value:
    """What a value is an attribute of: `self` of `self.model.encoder`."""
    seen: set[Value] = set()
    while isinstance(value, Unknown) and value.origin == "attribute" and value.parents and value not in seen:
        seen.add(value)
        value = resolved(value.parents[0])
    return value


def _is_state_dict(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "state_dict" and not call.args


def _place(target: ast.expr | None) -> str:
    """The variable or attribute that a target is, or is an entry of."""
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


def _is_named(method: ast.expr, names: set[str]) -> bool:
    """Whether a method is called on what has one of these names: `self.model` of `self.model.cpu`."""
    return isinstance(method, ast.Attribute) and dotted(method.value).rpartition(".")[2] in names


def _is_cpu(move: ast.Call) -> bool:
    """`model.to("cpu")`, `model.to(torch.device("cpu"))`."""
    return any(isinstance(item, ast.Constant) and item.value == "cpu" for item in walk(move))


def _counts(statement: ast.AugAssign) -> bool:
    """`step += 1`."""
    return isinstance(statement.value, ast.Constant) and statement.value.value == 1


def _asks_for_end(test: ast.expr, targets: set[str], counters: set[str]) -> bool:
    """Whether a condition is about the number of the iteration alone, and may hold in the last one only:
    `epoch == epochs - 1`, `step >= steps`."""
    if isinstance(test, ast.BoolOp):
        return all(_asks_for_end(item, targets, counters) for item in test.values)
    if not isinstance(test, ast.Compare) or any(isinstance(item, ast.Mod) for item in walk(test)):
        return False
    sides = [test.left, *test.comparators]
    if any(isinstance(side, ast.Constant) and side.value in _FIRST for side in sides):
        return False
    asked = targets | counters if isinstance(test.ops[0], (ast.Eq, ast.GtE)) else targets
    return not asked.isdisjoint(names_read(test))
