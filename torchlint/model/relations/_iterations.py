"""Iterations of loops: steps of one training or evaluation, or separate jobs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeGuard

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import (
    Backward,
    Call,
    Compute,
    Event,
    Fresh,
    Grad,
    GradRead,
    Loop,
    MemoryProbe,
    Step,
    repeating,
)
from torchlint.model.module_values import has_parameters, is_forward, is_module
from torchlint.model.program import Program, Trace
from torchlint.model.relations._iteration_data import IterationData, counts
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Answer,
    BoundMethod,
    CallResult,
    Module,
    Optimizer,
    Parameter,
    Tensor,
    Unknown,
    UnknownObject,
    Value,
    inputs_of,
)
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import LOOPS, SCOPES, dotted, walk_outside
from torchlint.syntax.python_tree import PythonTree

_NETWORK = LazyPattern(r"(^|_)(model|net|network)$", re.IGNORECASE)
"""Names of a whole network: `decoder_hidden` and a critic's `q` do not count."""


class Iteration:
    """One iteration of a loop."""

    def __init__(self, program: Program, trace: Trace, loop: Loop) -> None:
        self.tree = program.tree
        self.loop = loop
        self.node = program.tree.node(loop.site)
        self.trace = trace
        self.inside = [event for event in trace.events if loop in event.loops]
        self.own = [event for event in self.inside if not self._loops_inside(event)]
        """The events in it, without those in a loop inside it."""
        self.data = IterationData(self.node, program.definitions.scopes.anywhere())
        self._made = self.data.yielded | program.definitions.assigned_names(self.node)
        """Names whose value differs from iteration to iteration."""

    @cached_property
    def training(self) -> list[Event]:
        """The backward passes and optimizer steps that make each iteration a training step; else empty."""
        work: list[Event] = [event for event in self.own if isinstance(event, (Backward, Grad, Step))]
        if not work or self._begins_run() or self._takes_turns() or self._holds_epoch():
            return []
        return work if self._trains_on_data() or self._trains_alone() else []

    @cached_property
    def generates(self) -> bool:
        """Whether each iteration generates text, or a trajectory, which takes seconds."""
        return generates(self.inside, self.loop.depth, self.tree)

    @cached_property
    def reads_memory(self) -> bool:
        """Whether the loop reads memory counters."""
        return any(map(reads_memory, self.inside))

    @cached_property
    def inference(self) -> list[Event]:
        """The forward passes that make each iteration a step of one evaluation, on the loop's items."""
        passes = [event for event in self.own if self._is_pass(event) and self._is_fed(event)]
        return passes if passes and not (self._begins_run() or self._takes_turns()) else []

    # -- what is trained on -----------------------------------------------------------------------------

    def _trains_on_data(self) -> bool:
        """Whether gradients of the loop's items are computed."""
        losses = [event for event in self.inside if isinstance(event, (Backward, Grad))]
        return any(self._is_fed(event) for event in losses or filter(self._is_pass, self.own))

    def _trains_alone(self) -> bool:
        """Whether the iteration is one step on data that it draws itself: no episode, and no probe of a size."""
        if self._gathers_experience() or self.data.varies_size:
            return False
        return self._accumulates() or any(isinstance(event, (Step, Grad, GradRead)) for event in self.own)

    def _accumulates(self) -> bool:
        """Whether the iteration accumulates gradients for a step of the loop around it."""
        backward = next((event for event in self.own if isinstance(event, Backward)), None)
        around = backward.loops[: backward.loops.index(self.loop)] if backward is not None else ()
        return bool(around) and any(step.loops == around for step in self.trace.of(Step))

    def _holds_epoch(self) -> bool:
        """Whether it trains in an inner loop over a loader that is older than the iteration."""
        trained = (event for event in self.inside if isinstance(event, (Backward, Step)))
        return any(map(self._is_epoch, {loop for event in trained for loop in self._loops_inside(event)}))

    def _is_epoch(self, inner: Loop) -> bool:
        node = self.tree.node(inner.site)
        if not isinstance(node, (ast.For, ast.AsyncFor)) or counts(node.iter) or dotted(node.target) == "_":
            return False
        return inner.depth > self.loop.depth or not self.data.feeds(node.iter)

    def _gathers_experience(self) -> bool:
        own = _nodes(self.node, ast.Call, but=(*LOOPS, *SCOPES, ast.If))
        inner = (call for loop in _nodes(self.node, *LOOPS) for call in _nodes(loop, ast.Call))
        return any(naming.COLLECTING.search(dotted(call.func)) for call in own) or any(
            naming.ENVIRONMENT_STEP.search(dotted(call.func)) for call in inner
        )

    def _is_fed(self, event: Event) -> bool:
        """Whether an event uses the loop's items: itself, or through the call in the loop's body that leads to it."""
        return self.data.feeds(self.tree.node(event.place_in(self.loop)))

    def _loops_inside(self, event: Event) -> list[Loop]:
        """The loops inside this one around an event."""
        return repeating(event.loops[event.loops.index(self.loop) + 1 :])

    # -- runs ---------------------------------------------------------------------------------------------

    def _is_pass(self, event: Event) -> bool:
        """Whether an event is a forward pass: a call that receives another module or a loader is a whole job."""
        return _is_forward(event) and not any(map(_is_for_job, _operands(event.value)))

    def _takes_turns(self) -> bool:
        """Whether each iteration calls or steps another module or optimizer."""
        return not self._made.isdisjoint(map(self._root_name, self.own))

    def _root_name(self, event: Event) -> str:
        """The first name of the running module or stepping optimizer; else empty."""
        node: ast.AST | None = None
        if isinstance(event, Step):
            node = self.tree.node(event.expression) if event.expression is not None else None
        elif _is_forward(event):
            call = self.tree.node(event.site)
            node = call.func if isinstance(call, ast.Call) else None
        return dotted(node).partition(".")[0]

    def _begins_run(self) -> bool:
        """Whether the iteration creates the model, or the optimizer that it steps: a sweep, a fold, a restart."""
        used = (value for event in self.inside for value in _used(event))
        made = (item for value in used for item in inputs_of(value) if item.loops[-1:] == (self.loop,))
        return any(map(_is_run, made)) or any(map(_makes_module, self.own))


def called_name(call: ast.Call) -> str:
    """The name of a method, or the dotted name of a function."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)


def generates(inside: list[Event], depth: int, tree: PythonTree) -> bool:
    """Whether some of these events, or calls leading to them at `depth`, generate text or a trajectory."""
    sites = {site for event in inside for site in (event.site, *event.calls[depth:])}
    calls = (tree.own_node(site) for site in sites if site.is_of(ast.Call))
    return any(isinstance(call, ast.Call) and bool(naming.GENERATING.search(called_name(call))) for call in calls)


def reads_memory(event: Event) -> bool:
    """Whether an event reads memory counters, as far as torchlint knows."""
    if isinstance(event, Call) and event.value.callee is not None:
        return bool(naming.MEMORY_FIGURE.search(event.value.callee.label))
    return isinstance(event, MemoryProbe)


def _is_forward(event: Event) -> TypeGuard[Compute | Call]:
    return isinstance(event, (Compute, Call)) and is_forward(event.value)


def _operands(value: Tensor | Unknown) -> tuple[Value, ...]:
    """The inputs of a forward pass, without the module or the object whose method it is."""
    of_method = isinstance(value, Unknown) and isinstance(value.callee, BoundMethod)
    return value.parents[1:] if isinstance(value, Tensor) or of_method else value.parents


def _is_for_job(value: Value) -> bool:
    """Whether only code that trains or evaluates by itself needs a value as an argument."""
    if naming.LOADER.search(value.label) or is_kind(value, Kind.LOADER) or is_module(value) is Answer.YES:
        return True
    return isinstance(value, Parameter) and bool(naming.MODULE.search(value.label))


def _used(event: Event) -> tuple[Value, ...]:
    """The modules or the optimizer that an event uses.

    For a step that is the optimizer. Otherwise these are the modules it creates, runs or passes to unknown code, with
    the values they were built from.
    """
    if isinstance(event, Fresh):
        return (event.value,) if isinstance(event.value, Module) else ()
    if isinstance(event, Step):
        return (event.optimizer,)
    if isinstance(event, Compute) and is_forward(event.value):
        return event.value.parents[:1]
    if not isinstance(event, Call):
        return ()
    callee = event.value.callee
    return (*event.value.parents, *((callee, *callee.parents[:1]) if callee is not None else ()))


def _is_run(value: Value) -> bool:
    """Whether creating a value starts a run: an optimizer, or a trainable module."""
    if isinstance(value, Module):
        return has_parameters(value)
    made = isinstance(value, (CallResult, UnknownObject))
    return isinstance(value, Optimizer) or (made and is_module(value) is Answer.YES)


def _makes_module(event: Event) -> bool:
    """Whether an apparent forward pass returns the network: `self.model = model_func(...)`."""
    return _is_forward(event) and _NETWORK.search(event.value.label) is not None


def _nodes(root: ast.AST, *kinds: type[ast.AST], but: tuple[type[ast.AST], ...] = SCOPES) -> Iterator[Any]:
    """The nodes of some kinds below another, without those inside nodes of other kinds."""
    return (node for node in walk_outside(root, but) if isinstance(node, kinds))
