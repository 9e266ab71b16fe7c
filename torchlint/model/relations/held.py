"""Held values: the values that iterations leave in lists, sums, dictionaries and attributes, and whether they stay."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

from torchlint.model.events import Keep, Keeping, Loop, Path, apart, repeating
from torchlint.model.heap import AS_MADE, Change, Contents
from torchlint.model.lineage import on_path, with_owners
from torchlint.model.ownership import Ownership
from torchlint.model.parts import Parts
from torchlint.model.program import Program, Trace
from torchlint.model.queries.written import argument
from torchlint.model.relations._conditions import Conditions
from torchlint.model.relations._places import MOST_ARMS, End, Places, alternatives, put_in
from torchlint.model.relations._references import (
    DEEP,
    SHALLOW,
    Reference,
    References,
    is_for_the_end,
    shares_tensors,
)
from torchlint.model.relations._rings import Rings
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.relations.answer import lines
from torchlint.model.tracking import Tracking
from torchlint.model.values import Answer, CallResult, Container, Phi, Value, inputs_of, is_none, resolved
from torchlint.syntax.python_ast import dotted, names_read, walk

__all__ = [
    "DEEP",
    "SHALLOW",
    "Held",
    "Holding",
    "Reference",
    "References",
    "is_for_the_end",
    "shares_tensors",
]

_EMPTYING = frozenset({"clear", "pop", "popleft"})


class Holding(NamedTuple):
    """Whether a place still holds, at the end of an iteration, its value from the beginning."""

    answer: Answer
    reason: str = ""
    """The code that empties it, or may."""


class Held:
    """Answers about places that outlive the iterations of a loop."""

    def __init__(self, program: Program, tracking: Tracking, parts: Parts, ownership: Ownership) -> None:
        self.references = References(program, ownership)
        self._program = program
        self._tracking = tracking
        self._parts = parts
        self._conditions = Conditions(program)
        self._rings = Rings(program)
        self._known: dict[Loop | Trace, Places] = {}
        self._known_sums: dict[tuple[Value, Value | None], list[End]] = {}
        self._known_keeps: dict[Trace, dict[tuple[Value, Keeping | None], list[Keep]]] = {}

    def after(self, keep: Keep, container: Value, loop: Loop | None, trace: Trace) -> Holding:
        """Whether the values kept by an iteration stay; for a function without a loop, those kept by a call."""
        edge = loop.edge if loop is not None else trace.edge
        if edge is None:
            return Holding(Answer.NO, "there is no second iteration")
        if self._is_bounded(keep, container, loop, trace):
            return Holding(Answer.NO, "it holds only a few")
        places = self._known.get(loop or trace)
        if places is None:
            places = self._known[loop or trace] = Places(edge, loop, self._program)
        found = Holding(Answer.YES)
        for ends in self._ends(keep, container, places):
            holding = self._joined(list(ends))
            if holding.answer is Answer.NO:
                return holding
            if holding.answer is Answer.UNKNOWN:
                found = holding
        return found

    def outlives(self, values: set[Value], loop: Loop, path: Path = ()) -> bool:
        """Whether a place holds one of some values, or a value with one in its graph, at the end of an iteration.

        With a `path`, at the end of one that takes its branches.
        """
        edge = loop.edge
        if edge is None:
            return False
        ends = (*edge.names.values(), *edge.attributes.values())
        held = [ended for begun, ended in ends if ended is not None and ended is not begun]
        for container, (begun, ended) in edge.contents.items():
            held += put_in(begun, ended) if loop not in container.loops else ()
        left = (item for end in held for item in on_path(end, path))
        return any(not values.isdisjoint(self._tracking.graph(item)) for item in left)

    def is_emptied_elsewhere(self, container: Value) -> bool:
        """Whether any code empties or rebinds an attribute that holds a container, or its owner."""
        owners = {container, *self._parts.holders(container)}
        names = {name for owner in owners for name in self._names_of.get(owner, ())}
        return not names.isdisjoint(self._emptied_names)

    @cached_property
    def _names_of(self) -> dict[Value, set[str]]:
        """The names of the attributes that hold a value."""
        found: dict[Value, set[str]] = {}
        for heap in (self._program.observations.stored, *(trace.heap for trace in self._program.traces)):
            for (_, name), value in heap.items():
                for item in inputs_of(value):
                    found.setdefault(item, set()).add(name)
        return found

    @cached_property
    def _emptied_names(self) -> set[str]:
        """The names of attributes that are emptied or, outside `__init__`, rebound."""
        return {node.attr for node in self._program.nodes(ast.Attribute) if self._empties(node)}

    def _empties(self, node: ast.Attribute) -> bool:
        definitions = self._program.definitions_of(node)
        parent, around = definitions.tree.parent(node), definitions.function_around(node)
        if isinstance(node.ctx, ast.Store):
            return not isinstance(parent, ast.AugAssign) and (around is None or around.name != "__init__")
        if isinstance(parent, ast.Subscript):
            return not isinstance(parent.ctx, ast.Load)
        return isinstance(parent, ast.Attribute) and parent.attr in _EMPTYING

    def _is_bounded(self, keep: Keep, container: Value, loop: Loop | None, trace: Trace) -> bool:
        """Whether a place never holds more than a few values: a ring, a pool, the first ones."""
        if keep.how is Keeping.APPEND and loop is not None and self._conditions.is_for_a_few(keep, loop):
            return True
        node = self._program.tree.node(keep.site)
        if keep.how is Keeping.SLOT and isinstance(node, ast.Subscript):
            if self._rings.is_ring(node.slice, self._program.tree.node(loop.site) if loop is not None else None):
                return True  # `recent[i % size] = loss`
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                return True  # `heap[0] = loss`
            if loop is not None and self.overwrites(keep, container, loop):
                return True
        opposite = {Keeping.APPEND: Keeping.SLOT, Keeping.SLOT: Keeping.APPEND}.get(keep.how)
        others = self._keeps(trace).get((container, opposite), ())  # a pool: where `pool.append(image)` does not
        return any(apart(keep, other) for other in others)  # run, `pool[i] = image` does

    def overwrites(self, keep: Keep, container: Value, loop: Loop) -> bool:
        """Whether each iteration of a loop stores a value under the same key, and no value continues the one before."""
        if keep.how is not Keeping.SLOT or not isinstance(container, Container) or loop not in keep.loops:
            return False
        if container in self._tracking.graph(keep.value):
            return False
        around, key = self._program.tree.node(loop.site), self._key_in(keep, loop)
        if key is None or not isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
            return False
        names = (node for node in walk(around) if isinstance(node, (ast.Name, ast.Attribute)))
        changed = {dotted(node) for node in names if not isinstance(node.ctx, ast.Load)}
        return _is_plain_key(key) and changed.isdisjoint(names_read(key))

    def _key_in(self, keep: Keep, loop: Loop) -> ast.expr | None:
        """The expression, in the function of a loop, of the key under which a value is stored."""
        node = self._program.tree.node(keep.site)
        if not isinstance(node, ast.Subscript):
            return None
        if loop.depth >= len(keep.calls):
            return node.slice
        definitions = self._program.definitions_of(node)
        function, call = definitions.function_around(node), self._program.tree.node(keep.calls[-1])
        name = dotted(node.slice)
        if loop.depth < len(keep.calls) - 1 or function is None or name not in function.parameters:
            return None
        is_rebound = name in definitions.names_assigned(walk(function.node))
        if is_rebound or not isinstance(call, ast.Call):
            return None
        return argument(call, function.parameters.index(name) - function.is_method, name)

    def _keeps(self, trace: Trace) -> dict[tuple[Value, Keeping | None], list[Keep]]:
        """The values a trace keeps, by container and manner."""
        if trace not in self._known_keeps:
            found = self._known_keeps[trace] = {}
            for keep in trace.of(Keep):
                found.setdefault((resolved(keep.container), keep.how), []).append(keep)
        return self._known_keeps[trace]

    # -- in words ------------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """For each value with a graph that a loop stores beyond an iteration, whether it stays there."""
        for trace in self._program.traces:
            for keep in trace.of(Keep):
                container = resolved(keep.container)
                loops = [loop for loop in repeating(keep.loops) if loop not in container.loops]
                if loops and keep.how is not Keeping.CLEAR and self._tracking.tracked(keep.value) is Answer.YES:
                    yield Text(keep.site, self._said(keep, self.after(keep, container, loops[-1], trace), loops[-1]))
        for found in self.references.stale():
            where = lines(self._program.tree, [found.use])
            yield Text(
                found.site,
                f"`{found.place}` holds the parameters of `{found.model}` itself; {where} uses them after a step",
            )

    def _said(self, keep: Keep, holding: Holding, loop: Loop) -> str:
        name = f"`{keep.name}`" if keep.name else "the container"
        where = f"the loop of {lines(self._program.tree, [loop.site])}"
        if holding.answer is Answer.YES:
            return f"{name} holds the graphs of all iterations of {where}"
        if holding.answer is Answer.NO:
            return f"{name} holds no graph of an earlier iteration of {where}: {holding.reason}"
        return f"unknown: {holding.reason}"

    # -- the places --------------------------------------------------------------------------------------

    def _ends(self, keep: Keep, container: Value, places: Places) -> Iterator[Iterator[End]]:
        """For each place that holds a kept value, its possible ends."""
        is_sum = keep.how is Keeping.ADD and not isinstance(container, Container)
        alive = self._holders(keep, container, places, is_sum=is_sum)
        own = {container, keep.container, *places.at_first(keep.container)}
        for item in alive:
            if item in places.contents:
                begun, ended = places.contents[item]
                if item not in own:
                    yield self._contents(begun, ended, partial(self._lets_go, item, alive, places))
                    continue
                key = item, keep.how, self._key(keep)
                if key not in places.known:
                    places.known[key] = list(self._contents(begun, ended, partial(self._replaces, keep)))
                yield iter(places.known[key])
        if is_sum:
            for before, after in places.by_name.get(keep.name.rpartition(".")[2], ()):
                before = before or keep.container
                if before is keep.container or before in self._tracking.graph(keep.container):
                    yield iter(self._sums(before, after))
        for item in () if is_sum else alive:
            for before, after in places.by_value.get(item, ()):
                yield self._bound(before, after, alive, places)

    def _holders(self, keep: Keep, container: Value, places: Places, *, is_sum: bool) -> set[Value]:
        """A container and its holders; for a sum, the object whose attribute it is."""
        found: set[Value] = set()
        if is_sum and "." not in keep.name:
            return found
        stack = [container, keep.container, *places.at_first(keep.container)]
        while stack:
            item = stack.pop()
            if item not in found:
                found.add(item)
                stack += (*self._parts.holders(item), *with_owners(item)[1:], *places.around.get(item, ()))
                if isinstance(item, Phi) and item.source is not None:
                    stack.append(item.source)
        return found - {container, *places.at_first(keep.container)} if is_sum else found

    # -- the ways in which they end ----------------------------------------------------------------------

    def _contents(self, begun: Value, ended: Value, drops: Callable[[Contents], bool]) -> Iterator[End]:
        """The possible ends of the contents of a container; `drops` says whether setting an entry drops the value."""
        stack: list[tuple[Value, Path]] = [(ended, ())]
        seen: set[Value] = set()
        while stack:
            item, arms = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if isinstance(item, Phi):
                stack += [(part, (*item.arms.get(part, ()), *arms[:MOST_ARMS])) for part in item.parents]
            elif item is begun or item is AS_MADE or not isinstance(item, Contents):
                yield End(Answer.YES, arms)
            elif item.change is Change.PUT or (item.change is Change.SET and not drops(item)):
                stack.append((item.parents[0], arms))
            elif item.change is Change.UNKNOWN:
                yield End(Answer.UNKNOWN, arms, f"`{item.label}` may change it")
            else:
                yield End(Answer.NO, arms, f"something {item.change.value} it")

    def _replaces(self, keep: Keep, item: Contents) -> bool:
        """Whether setting an entry drops the kept value: an entry of a list, or the same entry."""
        if keep.how is Keeping.APPEND:
            return True
        tracked = self._tracking.tracked(item.parents[1])
        is_cut = tracked is Answer.NO or (tracked is Answer.UNKNOWN and keep.how is Keeping.SLOT)
        return is_cut and item.label == self._key(keep)

    def _lets_go(self, around: Value, alive: set[Value], places: Places, item: Contents) -> bool:
        """Whether setting an entry of a container around the kept value's container drops the latter."""
        new = resolved(item.parents[1])
        if item.old is None:
            held = around.elements() if isinstance(around, Container) and item.label else []
            return alive.isdisjoint(held)
        old = next((old for old in inputs_of(item.old) if old in alive), None)
        return old is not None and not self._includes(new, old, alive, places)

    def _key(self, keep: Keep) -> str:
        """The literal key of the entry that keeps a sum or value; empty if not known."""
        node = self._program.tree.node(keep.site)
        target = node.target if isinstance(node, ast.AugAssign) else node
        target = target.targets[0] if isinstance(target, ast.Assign) else target
        index = target.slice if isinstance(target, ast.Subscript) else None
        return str(index.value) if isinstance(index, ast.Constant) else ""

    def _sums(self, begun: Value, ended: Value | None) -> list[End]:
        """The possible values of a sum; one that starts with a new graph held none in the first iteration."""
        key = begun, ended
        if key not in self._known_sums:
            self._known_sums[key] = list(self._values_of_sum(begun, ended))
        return self._known_sums[key]

    def _values_of_sum(self, begun: Value, ended: Value | None) -> Iterator[End]:
        for item, arms in alternatives(ended, begun):
            if item is None or is_none(item):
                yield End(Answer.NO, arms, "the sum starts again")
                continue
            tracked = self._tracking.tracked(item)
            goes_on = begun in item.parents or begun in self._tracking.graph(item)
            if item is begun or (tracked is not Answer.NO and goes_on):
                yield End(Answer.YES, arms)
            elif tracked is not Answer.YES:
                yield End(tracked, arms, "the sum starts again")

    def _bound(self, begun: Value, ended: Value | None, alive: set[Value], places: Places) -> Iterator[End]:
        for item, arms in alternatives(ended, begun):
            if item is not None and self._includes(item, begun, alive, places):
                yield End(Answer.YES, arms)
            elif isinstance(item, CallResult):
                yield End(Answer.UNKNOWN, arms, "it is bound to the result of a call")
            else:
                yield End(Answer.NO, arms, "it is assigned again")

    def _includes(self, item: Value, begun: Value, alive: set[Value], places: Places) -> bool:
        """Whether a value is the previous value of a place, or a list that includes it."""
        if item is begun or item in alive:
            return True
        _, made = places.contents.get(item, (item, item))
        joined = made.parents if isinstance(made, Contents) and made.change is Change.PUT else ()
        return any(self._includes(part, begun, alive, places) for part in joined if part is not item)

    def _joined(self, ends: list[End]) -> Holding:
        others = [end for end in ends if end.holds is not Answer.YES]
        if not others or (len(others) < len(ends) and all(self._conditions.is_seldom(end.arms) for end in others)):
            return Holding(Answer.YES)
        if len(others) < len(ends):
            return Holding(Answer.UNKNOWN, f"now and then {others[0].reason}")
        unknown = next((end for end in others if end.holds is Answer.UNKNOWN), None)
        return Holding(Answer.UNKNOWN, unknown.reason) if unknown else Holding(Answer.NO, others[0].reason)


def _is_plain_key(key: ast.expr) -> bool:
    """Whether a key consists of names and literals: `pid`, `(fold, pid)`, `f"{fold}/{pid}"`."""
    parts = (ast.Name, ast.Constant, ast.Tuple, ast.JoinedStr, ast.FormattedValue, ast.expr_context)
    return all(isinstance(item, parts) for item in walk(key))
