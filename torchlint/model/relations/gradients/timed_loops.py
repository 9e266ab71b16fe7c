"""Loops that only measure the duration of a step: on constant inputs and without a use of the results."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.model.definitions import Definitions
from torchlint.model.events import Backward, Loop, Step
from torchlint.model.program import Trace
from torchlint.model.values import Module, Parameters, Plain, Tensor, Value, resolved
from torchlint.pytorch import api
from torchlint.syntax.python_ast import LOOPS, names_read, walk

_STEPPING = frozenset("backward step zero_grad synchronize".split())
"""Methods that such a loop calls for their effect."""


def only_times(loop: Loop, trace: Trace, definitions: Definitions) -> bool:
    """Whether a loop is timed, goes backward from constants only, and nothing reads its results."""
    node = definitions.tree.node(loop.site)
    if not isinstance(node, LOOPS):
        return False
    block = definitions.tree.block(node)
    place = block.index(node)
    before, after = block[:place], block[place + 1 :]
    if not (_shows_nothing(node.body) and _read_clock(before, definitions) and _read_clock(after, definitions)):
        return False
    read = {name for statement in after for name in names_read(statement)}
    inside = [event for event in trace.events if loop in event.loops]
    losses = [event.loss for event in inside if isinstance(event, Backward)]
    made = definitions.names_assigned(node.body) | {event.name for event in inside if isinstance(event, Step)}
    return made.isdisjoint(read) and all(_is_constant(loss, read) for loss in losses)


def _read_clock(statements: Iterable[ast.AST], definitions: Definitions) -> bool:
    return any(
        definitions.named(node.func) in api.CLOCKS
        for statement in statements
        for node in walk(statement)
        if isinstance(node, ast.Call)
    )


def _shows_nothing(body: Iterable[ast.AST]) -> bool:
    """Whether statements only compute and step."""
    return all(
        isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in _STEPPING
        for statement in body
        for node in walk(statement)
        if isinstance(node, ast.Expr)
    )


def _is_constant(loss: Value, read: set[str]) -> bool:
    """Whether a loss is computed by modules that nothing reads later, from tensors without input data."""
    seen: set[Value] = set()
    stack = [loss]
    while stack:
        value = resolved(stack.pop())
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Tensor):
            stack.extend(value.parents)
        elif not isinstance(value, (Module, Parameters, Plain)) or value.label in read:
            return False
    return True
