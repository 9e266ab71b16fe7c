"""Padding masks, recognized by their computation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.model.events import Compute
from torchlint.model.lineage import computed_inside
from torchlint.model.program import Program
from torchlint.model.values import ModuleOutput, Parameter, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax.python_tree import PythonTree

COMPARISONS = frozenset("compare eq gt lt ge le ne".split())
ADAPTED = frozenset("float double half to type_as unsqueeze squeeze expand view reshape bool long int".split())
_POSITIONS = frozenset({"arange"})
_MOST = 16
_DEEPEST = 3

Calls = tuple[ModuleOutput, ...]


def adapted(value: Value) -> Value:
    """The value before changes of type and shape."""
    value = resolved(value)
    while isinstance(value, Tensor) and value.op in ADAPTED and value.parents:
        value = resolved(value.parents[0])
    return value


def is_position(value: Value) -> bool:
    """Whether a value numbers positions: `torch.arange(n)`, also with more dimensions."""
    value = adapted(value)
    while isinstance(value, Tensor) and value.op == operators.GETITEM and value.parents:
        value = adapted(value.parents[0])
    return isinstance(value, Tensor) and value.op in _POSITIONS


def tells_padding(mask: Value, tree: PythonTree, given: Callable[[Value], Value]) -> bool:
    """Whether a mask compares positions with lengths, or elements with a number by `!=`."""
    mask, inverted = given(adapted(mask)), False
    for _ in range(_MOST):
        mask = given(adapted(mask))
        if not isinstance(mask, Tensor) or mask.site is None:
            return False
        code = tree.node(mask.site)
        if mask.op == operators.BITWISE and isinstance(code, ast.UnaryOp):
            mask, inverted = mask.parents[0], not inverted
        elif mask.op in COMPARISONS:
            wanted = ast.Eq if inverted else ast.NotEq
            differs = isinstance(code, ast.Compare) and isinstance(code.ops[0], wanted)
            is_number = isinstance(code, ast.Compare) and isinstance(code.comparators[0], ast.Constant)
            return any(map(is_position, mask.parents)) or (differs and is_number)
        elif mask.op == operators.GETITEM and isinstance(code, ast.Subscript):
            mask = mask.parents[0]
        else:
            return False
    return False


def computed(program: Program) -> Iterator[tuple[Tensor, Calls]]:
    """The tensors that a program computes, also in calls to its modules, each with the calls around it."""
    for trace in program.traces:
        for event in trace.of(Compute):
            yield from computed_in_calls(event.value)


def computed_in_calls(value: Tensor, around: Calls = ()) -> Iterator[tuple[Tensor, Calls]]:
    """A tensor and the values that calls of the program's modules compute for it, each with the calls around it."""
    yield value, around
    if isinstance(value, ModuleOutput) and len(around) < _DEEPEST:
        for inner in computed_inside(value):
            if isinstance(inner, ModuleOutput):
                yield from computed_in_calls(inner, (*around, value))
            else:
                yield inner, (*around, value)


def argument(value: Value, calls: Calls) -> Value:
    """The value of a parameter in the calls that compute a value."""
    value = resolved(value)
    for call in reversed(calls):
        if not isinstance(value, Parameter) or value.label not in call.given:
            break
        value = adapted(call.given[value.label])
    return value
