"""The module as a program: the functions worth interpreting, their order, and the trace of each."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar, overload

from torchlint.index import FileIndex
from torchlint.model.cases import Case
from torchlint.model.dataflow import pruned
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.events import (
    Backward,
    Branch,
    Event,
    Inlined,
    Item,
    Loop,
    Mutate,
    Read,
    Step,
    events_in,
    items_in,
)
from torchlint.model.frames import Frame
from torchlint.model.heap import BackEdge
from torchlint.model.imports import Imports
from torchlint.model.interpret.interpreter import Interpreter
from torchlint.model.interpret.transfer.forwards import Forward
from torchlint.model.interpret.transfer.grad_modes import decorated_mode
from torchlint.model.interpret.transfer.objects import is_module_class, is_optimizer_class
from torchlint.model.observations import Observations
from torchlint.model.position import Snapshot, changed
from torchlint.model.relevance import Relevance
from torchlint.model.roots import callers_first, may_run
from torchlint.model.state import MAX_ELSEWHERE
from torchlint.model.values import Value
from torchlint.pytorch.api import GRAD_MODES, SET_GRAD_MODE
from torchlint.pytorch.effects import GradMode
from torchlint.pytorch.naming import is_benchmark, is_test
from torchlint.syntax.python_ast import FUNCTIONS, Site, dotted, elsewhere_of, is_literal
from torchlint.syntax.python_tree import PythonTree

Kind = TypeVar("Kind", bound=Event)
Other = TypeVar("Other", bound=Event)

_MODES = SET_GRAD_MODE | GRAD_MODES.keys()


@dataclass(eq=False)
class Trace:
    """The events of one root: the module's own statements (`root` None), or a function without a visible caller."""

    root: FunctionInfo | None
    items: list[Item]
    frame: Frame
    heap: dict[tuple[Value, str], Value]
    observations: Observations
    start: int
    """The time at which its interpretation began."""
    called: bool
    """Whether the module calls a function of this name, although no call could be followed."""
    began: Snapshot
    """The state at its beginning."""
    contents: dict[Value, Value]
    """The contents of containers at its end."""

    @cached_property
    def edge(self) -> BackEdge:
        """The changes from its beginning to its end."""
        return changed(self.began, Snapshot(self.frame.locals, self.heap, self.contents, self.began.mode, True))

    @cached_property
    def events(self) -> list[Event]:
        """All events, in flow order."""
        return list(events_in(self.items))

    def of(self, kind: type[Kind], loops: tuple[Loop, ...] = ()) -> list[Kind]:
        """The events of a kind inside these loops, in flow order."""
        found: list[Kind] = self._of(kind)  # type: ignore[assignment]
        return [event for event in found if event.loops[: len(loops)] == loops] if loops else found

    def backwards_of(self, step: Step) -> list[Backward]:
        """The backward passes in the iteration of a step, which may be in its own loop over optimizers."""
        return [item for item in self.of(Backward) if step.loops[: len(item.loops)] == item.loops]

    def training_loop(self, event: Event) -> Loop | None:
        """The innermost loop around an event that also contains a backward: not one over several optimizers."""
        return next((loop for loop in reversed(event.loops) if loop in self._training_loops), None)

    @cached_property
    def _training_loops(self) -> set[Loop]:
        return {loop for backward in self.of(Backward) for loop in backward.loops}

    @overload
    def of_kinds(self, kind: type[Kind], other: type[Other], /) -> list[Kind | Other]: ...
    @overload
    def of_kinds(self, *kinds: type[Event]) -> list[Event]: ...
    def of_kinds(self, *kinds: type[Event]) -> Any:
        """The events of several kinds, in flow order."""
        return self._of(*kinds)

    def _of(self, *kinds: type[Event]) -> list[Event]:
        found = self._by_kind.get(kinds)
        if found is None:
            found = self._by_kind[kinds] = [event for event in self.events if isinstance(event, kinds)]
        return found

    @cached_property
    def _by_kind(self) -> dict[tuple[type[Event], ...], list[Event]]:
        return {}

    def only(self, *kinds: type[Event]) -> list[Item]:
        """The items without events of other kinds, for a `Flow` over these kinds only; computed once."""
        if kinds not in self._pruned:
            self._pruned[kinds] = pruned(self.items, kinds)
        return self._pruned[kinds]

    @cached_property
    def _pruned(self) -> dict[tuple[type[Event], ...], list[Item]]:
        return {}

    @cached_property
    def followed(self) -> dict[Site, list[Inlined]]:
        """The followed calls of the module's functions, by their sites."""
        found: dict[Site, list[Inlined]] = {}
        for item in items_in(self.items):
            if isinstance(item, Inlined):
                found.setdefault(item.site, []).append(item)
        return found

    @cached_property
    def reads(self) -> dict[Value, list[Read]]:
        """The sites where values are read again."""
        found: dict[Value, list[Read]] = {}
        for event in self.of(Read):
            found.setdefault(event.value, []).append(event)
        return found

    @property
    def receiver(self) -> Value | None:
        """`self`, if the root is a method."""
        if self.root is None or not self.root.is_method or not self.root.parameters:
            return None
        return self.frame.locals.get(self.root.parameters[0])


class Program:
    """Interprets a module: first its statements, then the relevant functions that these did not reach."""

    def __init__(
        self,
        definitions: Definitions,
        calls: Collection[str] = (),
        imports: Imports | None = None,
        case: Case | None = None,
    ) -> None:
        """`calls` names callables: functions that call one, or its result, are interpreted, too.

        `imports` follows the module's imports from the repository. `case` gives the assumed value of an option.
        """
        self.tree = definitions.tree
        self.calls = frozenset(calls)
        self._imports = imports
        self.definitions = definitions
        self.interpreter = Interpreter(self.definitions, imports, case)
        self.interpreter.visit.at = None
        self.called_names = FileIndex.of(self.tree).called_names
        self._samples: dict[ClassInfo, list[Value]] = {}
        self.traces = list(self._interpret())
        self.observations = self._all_observations()

    def release(self) -> None:
        """Free the traces and the interpreter of a program that nothing uses any more."""
        for trace in self.traces:
            trace.__dict__.clear()
        self.interpreter.state.__dict__.clear()
        self.interpreter.__dict__.clear()
        self.__dict__.clear()

    @cached_property
    def is_test(self) -> bool:
        """Whether the file is a test, where some habits are correct."""
        return is_test(self.tree.source.path, self.tree.source.code)

    @cached_property
    def changed(self) -> set[Value]:
        """The results of in-place changes."""
        return {event.result for trace in self.traces for event in trace.of(Mutate)}

    @cached_property
    def files(self) -> dict[PythonTree, Definitions]:
        """The file, and the files followed from it."""
        others = self.definitions.others.followed() if self.definitions.others is not None else ()
        return {item.tree: item for item in (self.definitions, *others)}

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of exactly these types, in the file and in the files followed from it."""
        return chain.from_iterable(tree.of_type(*kinds) for tree in self.files)

    def definitions_of(self, node: ast.AST) -> Definitions:
        """The definitions of the file that contains a node."""
        elsewhere = elsewhere_of(node)
        return self.files[elsewhere.tree] if elsewhere is not None else self.definitions

    def returned_by(self, info: ClassInfo) -> Value | None:
        """The return value of the `forward` of a class of this module for any arguments; None if it is not known."""
        forward = self.interpreter.transfer.forwards.forward_of(info)
        return forward.returned if forward is not None else None

    def forwards_of(self, info: ClassInfo) -> tuple[Forward | None, Forward | None]:
        """The facts about the first call of a class's `forward`, and about the next call; None if not known."""
        forwards = self.interpreter.transfer.forwards
        return forwards.forward_of(info), forwards.second_forward_of(info)

    def functions_named(self, names: Collection[str]) -> Iterator[FunctionInfo]:
        """The functions with these names, in the file and in the files followed from it."""
        for definitions in self.files.values():
            yield from (info for info in definitions.functions.values() if info.name in names)

    def asked_before(self, arm: tuple[object, int]) -> ast.expr | None:
        """The test before the first arm of a branch: `accelerator.sync_gradients`."""
        branch, number = arm
        node = self.tree.node(branch.site) if isinstance(branch, Branch) else None
        return node.test if isinstance(node, ast.If) and number == 0 else None

    def is_module_class(self, info: ClassInfo) -> bool:
        """Whether objects of a class are modules."""
        return is_module_class(info)

    def is_optimizer_class(self, info: ClassInfo) -> bool:
        """Whether objects of a class are optimizers."""
        return is_optimizer_class(info)

    def attributes_of(self, info: ClassInfo) -> dict[str, Value]:
        """The attributes that `__init__` of a class of this module stores in an object, by name."""
        template = self.interpreter.template(info)
        return {name: value for (owner, name), value in self.observations.stored.items() if owner is template}

    def samples_of(self, info: ClassInfo) -> list[Value]:
        """The value of each `return` in a class's `__getitem__`, for any index; empty if that is not known."""
        if info not in self._samples:
            method = info.method("__getitem__")
            self._samples[info] = []
            if method is not None and self.interpreter.state.can_inline(method):
                with self.interpreter.aside(method, self.interpreter.template(info)) as (frame, _):
                    self._samples[info] = list(frame.returns)
        return self._samples[info]

    @property
    def is_cut_short(self) -> bool:
        """Whether interpretation stops early, because the module or its imports exceed the limits."""
        state = self.interpreter.state
        return state.budget <= 0 or state.elsewhere >= MAX_ELSEWHERE

    def tests(self, trace: Trace) -> bool:
        """Whether a trace starts with a test, in a file of tests."""
        return self.is_test and trace.root is not None and trace.root.name.startswith("test")

    @property
    def is_benchmark(self) -> bool:
        """Whether the module measures the duration of training."""
        return is_benchmark(self.tree.source.path, self.tree.source.code)

    def _interpret(self) -> Iterator[Trace]:
        state = self.interpreter.state
        self.interpreter.run(self.tree.module.body)
        began = Snapshot({}, {}, {}, state.mode, True)
        frame, observations = state.module_frame, state.observations
        yield Trace(None, state.items, frame, state.heap, observations, 0, False, began, state.contents)
        entered = {*state.observations.interpreted}
        start = state.copy()
        if start.mode is not GradMode.ON and not self._is_switched_off_for_good():
            start.mode = GradMode.UNKNOWN
        start.alive = True
        relevance = Relevance(self.definitions, self._imports)
        for functions in (relevance.training(), relevance.callers(self.calls)):
            traces: dict[FunctionInfo, Trace] = {}
            for info in callers_first(list(filter(may_run, functions)), self.definitions):
                if isinstance(info.node, FUNCTIONS) and (info not in entered or self._is_forward(info)):
                    traces[info] = self._root(info, start)
                    entered |= traces[info].observations.interpreted
            yield from (traces[info] for info in self._uncalled_first(functions) if info in traces)
        for info, owner in relevance.inherited():
            yield self._root(info, start, owner)

    def _all_observations(self) -> Observations:
        """The observations of all roots together; later requests of rules to the interpreter also add to them."""
        state = self.interpreter.state
        found = state.of_module.of_same_classes()
        for part in (state.asides, *(trace.observations for trace in self.traces)):
            found.add(part)
        state.observations = state.asides = found
        return found

    def _is_switched_off_for_good(self) -> bool:
        """Whether a statement of the module switches gradients off for good, without code that switches them on."""
        names = (self.definitions.qualified(dotted(node), node) for node in self.tree.of_type(ast.Attribute, ast.Name))
        modes = [GRAD_MODES.get(name) if name not in SET_GRAD_MODE else None for name in names if name in _MODES]
        calls = [statement.value for statement in self.tree.module.body if isinstance(statement, ast.Expr)]
        off = [call for call in calls if isinstance(call, ast.Call) and self._switches_off(call)]
        return bool(off) and GradMode.ON not in modes and modes.count(None) == len(off)

    def _switches_off(self, call: ast.Call) -> bool:
        name = self.definitions.qualified(dotted(call.func), call)
        return name in SET_GRAD_MODE and len(call.args) == 1 and is_literal(call.args[0], False)

    def _root(self, info: FunctionInfo, start: Snapshot, owner: ClassInfo | None = None) -> Trace:
        """Interpret a function with unknown callers; an inherited one for the class of this module that inherits it."""
        state = self.interpreter.state
        state.frame = state.module_frame
        state.restore(start)
        state.begin()
        state.observations.interpreted.add(info)
        self.interpreter.visit.at = info.node if owner is None else owner.node
        frame = self.interpreter.root_frame(info, owner)
        defined = state.observations.defined.get(info)
        if defined is not None and defined.frame is not None:
            frame.parent = defined.frame
        state.frame, state.position = frame, state.position.in_function(info)
        state.mode = decorated_mode(info, state) or state.mode
        began = state.clock
        assert not isinstance(info.node, ast.Lambda)
        self.interpreter.run(info.node.body)
        called = info.name in self.called_names and info.name != "__init__"
        if info.owner is None and info.name not in self._names_read:
            called = False  # `optimizer.step()` calls no function `step` that the file does not name
        return Trace(info, state.items, frame, state.heap, state.observations, began, called, start, state.contents)

    def _is_forward(self, info: FunctionInfo) -> bool:
        """Whether it is a module's `forward`, which runs in many contexts: a problem in it shows in its own trace."""
        return info.name == "forward" and info.owner is not None

    @cached_property
    def _names_read(self) -> set[str]:
        return {name.id for name in self.tree.of_type(ast.Name) if isinstance(name.ctx, ast.Load)}

    def _uncalled_first(self, functions: list[FunctionInfo]) -> list[FunctionInfo]:
        return sorted(functions, key=lambda info: info.name in self.called_names)
