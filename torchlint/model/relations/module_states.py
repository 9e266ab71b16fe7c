"""States that modules store on themselves from one call of `forward` to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Call, Loop, MayClear, events_in
from torchlint.model.lineage import ancestry
from torchlint.model.module_values import is_hooked
from torchlint.model.program import Program
from torchlint.model.queries.sure_graphs import SureGraphs
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.values import (
    Answer,
    Component,
    Instance,
    ModuleOutput,
    Tensor,
    Value,
    class_of,
    inputs_of,
    resolved,
)


class KeptState(NamedTuple):
    """An attribute that `forward` reads as `before` and leaves as `after`; `before` is in the graph of the result."""

    owner: ClassInfo
    name: str
    before: Value
    after: Value
    user: Tensor
    """The first value computed from `before`."""


class ModuleStates:
    """Answers about the graphs that modules carry along, from certain steps only."""

    def __init__(self, program: Program, sure_graphs: SureGraphs) -> None:
        self._program = program
        self._sure = sure_graphs
        self._tracking = sure_graphs.tracking
        self._known: dict[ClassInfo, list[KeptState]] = {}

    def dragged(self, graph: Iterable[Value], loop: Loop) -> Iterator[tuple[ModuleOutput, KeptState]]:
        """The states that the modules behind a loss carry through all iterations of a loop, without a cut."""
        for output in sorted(graph, key=lambda item: item.order):
            if isinstance(output, ModuleOutput) and loop in output.loops and self._sure.is_trained_call(output):
                module = resolved(output.parents[0])
                info = class_of(module)
                for state in self._of(info) if info is not None else ():
                    if not self._may_be_cut(state, loop, module):
                        yield output, state

    def answers(self) -> Iterator[Text]:
        """The places where a class's `forward` computes something from the graph of the previous call."""
        for info in self._program.definitions.classes.values():
            for state in self._of(info) if self._program.is_module_class(info) else ():
                if state.owner is info and state.user.site is not None:
                    yield Text(state.user.site, f"`self.{state.name}` has the graph of the previous call")

    def may_drag(self, module: Value) -> bool:
        """Whether a module's result may depend on a graph that earlier calls left on it."""
        info = class_of(resolved(module))
        return info is not None and any(self._may_return(item) for item in self._classes_in(info))

    def _may_return(self, info: ClassInfo) -> bool:
        first, second = self._program.forwards_of(info)
        if first is None or second is None or second.returned is None:
            return False
        sources = ancestry([second.returned])
        return any(value in sources and self._tracking.tracked(value) is not Answer.NO for value in first.kept.values())

    def _classes_in(self, info: ClassInfo) -> Iterator[ClassInfo]:
        """A class, and those of the modules that its `__init__` creates."""
        found, stack = set[ClassInfo](), [info]
        while stack:
            item = stack.pop()
            if item not in found:
                found.add(item)
                yield item
                inner = map(class_of, ancestry(self._program.attributes_of(item).values()))
                stack += [other for other in inner if other is not None]

    def _of(self, info: ClassInfo) -> list[KeptState]:
        """The states of a class, and of the modules whose outputs its own depends on."""
        if info not in self._known:
            self._known[info] = []  # a class may hold objects of its own
            self._known[info] = list(self._found(info))
        return self._known[info]

    def _found(self, info: ClassInfo) -> Iterator[KeptState]:
        first, second = self._program.forwards_of(info)
        if first is None or first.returned is None:
            return
        if second is not None and second.returned is not None:
            graph = self._sure.of(second.returned)
            for name, after in second.kept.items():
                before = first.kept.get(name)
                if before in graph and (user := self._user(graph, before)) is not None:
                    yield KeptState(info, name, before, after, user)
        for item in sorted(self._sure.of(first.returned), key=lambda item: item.order):
            inner = class_of(resolved(item.parents[0])) if isinstance(item, ModuleOutput) else None
            yield from self._of(inner) if inner is not None else ()

    def _user(self, graph: set[Value], state: Value) -> Tensor | None:
        """The first user of a state that a module computed: it saves tensors that its backward frees."""
        using = [item for item in graph if isinstance(item, Tensor) and state in item.parents]
        saves = all(any(map(self._is_output, self._sure.of(made))) for made in inputs_of(state))
        return min(using, key=lambda item: item.order) if using and saves else None

    def _is_output(self, value: Value) -> bool:
        """Whether a module computed a value, or several with it."""
        if isinstance(value, Component):
            return self._sure.is_trained_call(value.parents[0])
        return isinstance(value, ModuleOutput)

    def _may_be_cut(self, state: KeptState, loop: Loop, module: Value) -> bool:
        """Whether a loop may replace or detach a state: by its name, or through unknown effects on the module."""
        calls = [item for item in events_in(loop.body) if isinstance(item, (Call, MayClear))]
        handed = {resolved(item) for call in calls for item in _handed(call)}
        if module in handed or any(isinstance(item, Instance) for item in handed):
            return True
        return is_hooked(module) or loop.edge is None or loop.edge.may_set(module, state.name)


def _handed(call: Call | MayClear) -> tuple[Value, ...]:
    return call.handed if isinstance(call, MayClear) else call.value.parents
