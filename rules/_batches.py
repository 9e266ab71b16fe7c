"""The items of a loop: batches of a loader or a list, or slices of a tensor."""

from __future__ import annotations

import ast

from torchlint import Model
from torchlint.model.events import Loop
from torchlint.model.lineage import ancestry, made_of
from torchlint.model.module_values import given_to, is_forward, is_module_like
from torchlint.model.values import (
    Container,
    Element,
    Generator,
    Instance,
    Iteration,
    Module,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import dotted


def is_made_from_data(value: Value, loop: Loop, model: Model) -> bool:
    """Whether a module computed the tensor from an item of the loop, or from a batch that it slices.

    The loop iterates over a loader or a list, or slices with `x[i : i + 32]`.
    """
    graph = model.tracking.graph(value)
    inputs = ancestry((item for made in graph if is_forward(made) for item in given_to(made)), _without_makers)
    over = resolved(loop.over) if loop.over is not None else None
    listed = unpacked(over) if isinstance(over, Container) else set()
    if _goes_by_batches(model.tree.node(loop.site)):
        listed |= {item for item in inputs if _is_cut_out(item)}
    return not listed.isdisjoint(item for item in inputs if isinstance(item, (Tensor, Unknown))) or any(
        isinstance(item, Iteration) and item.site == loop.site for item in inputs
    )


def goes_over_objects(loop: Loop) -> bool:
    """Whether a loop iterates over the program's modules or objects, possibly together with data."""
    over = resolved(loop.over) if loop.over is not None else None
    return isinstance(over, Container) and any(isinstance(item, (Instance, Module)) for item in unpacked(over))


def _without_makers(value: Value) -> list[Value]:
    """The inputs of a value, without the module that computed it."""
    makes = value.callee.parents if isinstance(value, Unknown) and value.callee is not None else ()
    makers = {resolved(item) for item in makes if is_module_like(item)}
    return [item for item in made_of(value) if resolved(item) not in makers]


def _goes_by_batches(node: ast.AST) -> bool:
    """`for i in range(0, len(x), 32):`."""
    over = node.iter if isinstance(node, ast.For) else None
    if isinstance(over, ast.Call) and dotted(over.func) == "enumerate" and over.args:
        over = over.args[0]
    return isinstance(over, ast.Call) and dotted(over.func) == "range" and len(over.args) == 3


def _is_cut_out(value: Value) -> bool:
    """Whether a value is part of another by an index that is not a literal: `x[i : i + 32]`."""
    if isinstance(value, Unknown):
        return isinstance(value, Element) and value.label == "[None]"
    return isinstance(value, Tensor) and value.op == operators.GETITEM


def unpacked(container: Container) -> set[Value]:
    """The contents of a list, or of the tuples in it."""
    found: set[Value] = set()
    stack: list[Value] = [container]
    while stack:
        for item in inputs_of(stack.pop()):
            if item not in found:
                found.add(item)
                stack.extend(item.elements() if isinstance(item, Container) else ())
    return found


def repeats(loop: Loop, loops: tuple[object, ...]) -> bool:
    """Whether a node in these loops runs in each iteration of a loop, or of the generator that it iterates over."""
    return loop in loops or not loops_of_generator(loop).isdisjoint(loops)


def loops_of_generator(loop: Loop) -> set[object]:
    """The loops of this program's generator that yield the items of a loop."""
    over = resolved(loop.over) if loop.over is not None else None
    if not isinstance(over, Generator):
        return set()
    return {inner for item in over.elements() for inner in item.loops} - set(over.loops)
