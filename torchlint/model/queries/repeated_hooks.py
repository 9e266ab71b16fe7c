"""Module hooks that are registered again although the previous ones were never removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model import events, lineage, module_values, values
from torchlint.model.parts import Parts
from torchlint.model.program import Program, Trace
from torchlint.pytorch import api
from torchlint.pytorch.triggers import HOOK_NAMES
from torchlint.syntax import python_ast

_ALL_LAYERS = frozenset("modules named_modules children named_children".split())
_QUESTIONS = frozenset(api.MODULE_EVIDENCE) - {"forward"} | HOOK_NAMES
_OF_CLASS = frozenset("isinstance type issubclass".split())


class RepeatedHook(NamedTuple):
    """A hook registered at `site` in every iteration of `loop` (None: in every call of `forward`)."""

    site: python_ast.Site
    loop: events.Loop | None


class RepeatedHooks:
    """Answers for one file, and for its calls into others."""

    def __init__(self, program: Program, parts: Parts) -> None:
        self._program = program
        self._parts = parts

    def of(self, trace: Trace) -> Iterator[RepeatedHook]:
        """The hooks that a trace registers repeatedly and that no code can remove."""
        for event in trace.of(events.Call):
            callee = event.value.callee
            if callee is not None and callee.label in HOOK_NAMES and event.value.parents:
                if self._drops_handle(self._program.tree.node(event.site)):
                    yield from self._repeated(trace, event)

    def _drops_handle(self, call: ast.AST) -> bool:
        """Whether the handle is lost: it is bound to no name, or to one that is never read."""
        definitions = self._program.definitions_of(call)
        parent = definitions.tree.parent(call)
        if not isinstance(parent, ast.Assign):
            return isinstance(parent, ast.Expr)
        function = definitions.function_around(call)
        around = function.node if function is not None else definitions.tree.module
        names = (node for node in python_ast.walk(around) if isinstance(node, ast.Name))
        read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        return all(isinstance(target, ast.Name) and target.id not in read for target in parent.targets)

    def _repeated(self, trace: Trace, event: events.Call) -> Iterator[RepeatedHook]:
        module, loops, call = values.resolved(event.value.parents[0]), events.repeating(event.loops), event.site
        path, passed, written = event.path, event.passed, _owner(self._program.tree.node(call))
        while loops and (whole := _whole_of_layers(module)) is not None and module is not whole:
            walk = self._program.tree.node(loops[-1].site)
            if not isinstance(walk, ast.For):
                return
            inside = {python_ast.site_of(node).written for node in python_ast.walk(walk) if isinstance(node, ast.If)}
            arms = (*path[len(loops[-1].path) :], *(arm for arm in passed if _written(arm) in inside))
            if not self._takes_all_of_some_class(walk, arms):
                return
            passed = tuple(arm for arm in passed if _written(arm) not in inside)
            module, path, written = whole, loops.pop().path, _owner(_call_in(walk.iter))
        if isinstance(module, values.Phi) or passed:
            return
        if loops:
            loop = loops[-1]
            is_always = len(path) == len(loop.path) and loop.site.inner is None
            if is_always and not self._is_made_in(module, event, loop, written) and self._runs_model(trace, loop):
                yield RepeatedHook(event.site, loop)
        elif self._is_in_forward(trace) and not path and not event.calls and self._is_own(module, trace):
            yield RepeatedHook(event.site, None)

    def _takes_all_of_some_class(self, walk: ast.For, arms: events.Path) -> bool:
        """Whether a loop selects layers by their classes only, so that each run selects the same ones."""
        targets = {item.id for item in python_ast.walk(walk.target) if isinstance(item, ast.Name)}
        definitions = self._program.definitions_of(walk)
        for branch, _ in arms:
            node = self._program.tree.node(branch.site) if isinstance(branch, events.Branch) else None
            if not isinstance(node, ast.If):
                return False
            calls = {python_ast.called_name(item) for item in python_ast.walk(node.test) if isinstance(item, ast.Call)}
            read = python_ast.names_read(node.test)
            roots = {name.partition(".")[0] for name in read} - targets - _OF_CLASS
            own = any(definitions.scopes.binding(name, node) is not None for name in roots)
            if not calls <= _OF_CLASS or not calls or own:
                return False
        return True

    def _is_made_in(
        self, module: values.Value, event: events.Call, loop: events.Loop, written: ast.expr | None
    ) -> bool:
        """Whether a module, or the expression for it, differs from iteration to iteration."""
        made_of = lineage.ancestry([module])
        if any(loop in value.loops or self._is_chosen(value) for value in made_of):
            return True
        node = self._program.tree.node(loop.site)
        names = python_ast.names_read(written) if written is not None else set()
        targets = python_ast.walk(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else ()
        bound = {item.id for item in targets if isinstance(item, ast.Name)}
        is_called = len(event.calls) > loop.depth  # its names are those of another function
        return not is_called and not names.isdisjoint(bound | self._program.definitions.assigned_names(node))

    def _is_chosen(self, value: values.Value) -> bool:
        """Whether a value is an element of another at a non-literal index: `blocks[i]`."""
        node = self._program.tree.node(value.site) if isinstance(value, values.Element) else None
        return isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.UnaryOp))

    def _runs_model(self, trace: Trace, loop: events.Loop) -> bool:
        passes = (event for event in trace.of_kinds(events.Compute, events.Call) if loop in event.loops)
        forward = any(module_values.is_forward(event.value) and not _is_question(event.value) for event in passes)
        return forward or any(loop in backward.loops for backward in trace.of(events.Backward))

    def _is_in_forward(self, trace: Trace) -> bool:
        root = trace.root
        return root is not None and root.name == "forward" and isinstance(trace.receiver, values.Module)

    def _is_own(self, module: values.Value, trace: Trace) -> bool:
        """Whether a module belongs to the object of the `forward`: one created in the call is freed with it."""
        return trace.receiver is not None and self._parts.is_part(module, trace.receiver)


def _whole_of_layers(value: values.Value) -> values.Value | None:
    """The module whose layers a loop iterates over, for one of these layers; None for another value."""
    while isinstance(value, (values.Element, values.Iteration)) and value.parents:
        value = values.resolved(value.parents[0])
    callee = value.callee if isinstance(value, values.CallResult) else None
    is_of_all = callee is not None and values.resolved(callee).label in _ALL_LAYERS
    return values.resolved(value.parents[0]) if is_of_all and value.parents else None


def _written(arm: tuple[object, int]) -> python_ast.Site | None:
    """The expression of an arm's condition."""
    return arm[0].site.written if isinstance(arm[0], events.Branch) else None


def _is_question(value: values.Value) -> bool:
    """Whether a call only reads a module's layers or parameters, or switches its mode."""
    callee = value.callee if isinstance(value, values.Unknown) else None
    return callee is not None and values.resolved(callee).label in _QUESTIONS


def _owner(call: ast.AST | None) -> ast.expr | None:
    """The owner of a call: `model.body` of `model.body.modules()`."""
    return call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None


def _call_in(node: ast.expr) -> ast.expr:
    """The inner call: `model.modules()` of `enumerate(model.modules())`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        node = node.args[0]
    return node
