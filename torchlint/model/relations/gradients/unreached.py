"""Steps of parameters that no backward pass reaches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Backward, Step, apart
from torchlint.model.module_values import has_parameters
from torchlint.model.program import Trace
from torchlint.model.relations.gradients.arrivals import Gradients
from torchlint.model.values import Module, Optimizer, Tensor, Value, resolved
from torchlint.syntax.python_ast import names_read

_FILLING = ("__setattr__", "add_module", "append", "extend", "insert", "register_module", "register_parameter")
"""Uses of a module that put something into it."""


class UnreachedStep(NamedTuple):
    """`step` has no gradients: the loss of `backward`, the last pass before it, depends on other parameters only."""

    step: Step
    backward: Backward


def unreached_steps(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[UnreachedStep]:
    """The steps of an optimizer without gradients, if the program creates all modules.

    Modules of other origin may be parts of each other.
    """
    held, is_known = gradients.ownership.held_by(optimizer)
    is_ours = isinstance(optimizer, Optimizer) and not optimizer.has_use("param_groups")
    if not is_ours or not is_known or not _are_separate(held, gradients):
        return
    if next(gradients.program.nodes(ast.Yield, ast.YieldFrom), None) is not None:
        return  # a generator's computations with its modules are unknown at its consumer
    arrivals = gradients.arrivals(trace, optimizer, repeated=True)
    for step in trace.of(Step):
        there = arrivals.get(step, frozenset())
        is_empty = all(item.backward is None and not item.is_unknown for item in there)
        if resolved(step.optimizer) is optimizer and not step.manual and there and is_empty:
            passes = [item for item in trace.backwards_of(step) if item.order < step.order and not apart(item, step)]
            names = {item.label for item in held}
            if passes and all(_is_clear(gradients, item, optimizer, names) for item in trace.of(Backward)):
                yield UnreachedStep(step, passes[-1])


def _is_clear(gradients: Gradients, backward: Backward, optimizer: Value, names: set[str]) -> bool:
    """Whether all inputs of a loss are known: modules that the program creates.

    A module of the same name that is created after the optimizer replaces the one in it: then that is the defect.
    """
    modules, is_complete = gradients.ownership.modules_behind(backward)
    is_other = all(item.order < optimizer.order or item.label not in {"", *names} for item in modules)
    return is_complete and bool(modules) and is_other and _are_separate(modules, gradients)


def _are_separate(values: set[Value], gradients: Gradients) -> bool:
    """Whether values are modules and leaves that the program creates, none of which can hold or use another unseen."""
    return all(_is_separate(value, gradients.variables) for value in values)


def _is_separate(value: Value, variables: set[str]) -> bool:
    if not isinstance(value, Module):
        return isinstance(value, Tensor) and value.leaf
    if not has_parameters(value) or value.has_use(*_FILLING):
        return False
    node = value.info.node if value.info is not None else None
    return node is None or (node.col_offset == 0 and variables.isdisjoint(names_read(node)))
