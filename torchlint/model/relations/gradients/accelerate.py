"""Accelerate: the number of micro-batches that an accelerator accumulates, and the events within its windows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from torchlint.model.events import Backward, Branch, Clear, Clip, Event, Step
from torchlint.model.held_parameters import surely_optimizer
from torchlint.model.module_values import is_module_like, modules_of
from torchlint.model.ownership import Ownership
from torchlint.model.program import Program, Trace
from torchlint.model.relations.gradients.micro_batches import LostMicroBatch
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import Answer, Attribute, Optimizer, Plain, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import called_name, dotted, walk

MICRO_BATCHES = "gradient_accumulation_steps"


class DividedTwice(NamedTuple):
    """`backward` divides its loss by the number by which `quotient` already divided it."""

    backward: Backward
    quotient: Tensor


def micro_batches(accelerator: Value | None) -> Value | None:
    """The number of micro-batches of a window, from the accelerator's arguments; None if not known, or surely 1."""
    made = resolved(accelerator) if accelerator is not None else None
    number = made.part(MICRO_BATCHES) if made is not None and is_kind(made, Kind.ENGINE) else None
    number = resolved(number) if number is not None else None
    return None if isinstance(number, Plain) and number.constant in (None, 1) else number


def divided_twice(program: Program) -> Iterator[DividedTwice]:
    """Losses that the program divides by the number of micro-batches before `accelerator.backward` divides again."""
    for trace in program.traces:
        for backward in trace.of(Backward):
            number, loss = micro_batches(backward.framework), resolved(backward.loss)
            if number is not None and isinstance(loss, Tensor) and _is_by(loss, number, backward.framework):
                yield DividedTwice(backward, loss)


def _is_by(loss: Tensor, number: Value, accelerator: Value | None) -> bool:
    """Whether a loss is a quotient by the number of micro-batches. The mean of two terms, divided by 2, is not."""
    if loss.op not in (operators.DIV, operators.DIV_) or len(loss.parents) < 2 or accelerator is None:
        return False
    term, by = map(resolved, loss.parents[:2])
    if isinstance(by, Attribute) and by.label == MICRO_BATCHES and resolved(by.parents[0]) is resolved(accelerator):
        return True
    if isinstance(by, Plain) and isinstance(number, Plain) and by.is_literal and number.is_literal:
        is_sum = isinstance(term, Tensor) and term.op == operators.ADD
        return by.constant == number.constant and not is_sum
    return by is number


def cleared_in_window(program: Program, ownership: Ownership) -> Iterator[LostMicroBatch]:
    """Clearings with each micro-batch: of a module, or of a prepared optimizer before the backward.

    A prepared optimizer clears only in the last micro-batch of a window. Before its backward that is too early.
    """
    for trace in program.traces:
        for backward in _in_windows(program, trace):
            for clear in trace.of(Clear, backward.loops) if backward.loops else ():
                in_each = clear.loops == backward.loops and set(clear.path) <= set(backward.path)
                if in_each and clear.explicit and not _is_guarded(clear, program):
                    steps = (step for step in trace.of(Step, backward.loops) if not step.manual)
                    cleared = (
                        step
                        for step in steps
                        if _is_of_module(clear, backward, step, ownership)
                        or _is_too_early(clear, backward, step, program)
                    )
                    yield from (LostMicroBatch(clear, backward, step) for step in islice(cleared, 1))


def _is_of_module(clear: Clear, backward: Backward, step: Step, ownership: Ownership) -> bool:
    """Whether a clearing is of a module behind the loss that the stepping optimizer holds."""
    target = resolved(clear.target) if clear.target is not None else None
    if target is None or isinstance(target, Optimizer) or not is_module_like(target):
        return False
    if target is resolved(step.optimizer):
        return False  # an optimizer of an unknown class
    holds = ownership.clears(target, resolved(step.optimizer))
    through = set(modules_of(ownership.tracking.graph(backward.loss)))
    return holds is Answer.YES or (holds is Answer.UNKNOWN and target in through)


def _is_too_early(clear: Clear, backward: Backward, step: Step, program: Program) -> bool:
    """Whether a prepared optimizer clears before the backward of its step, in the same block."""
    target, optimizer = (resolved(item) if item is not None else None for item in (clear.target, step.optimizer))
    if (
        target is None
        or target is not optimizer
        or not surely_optimizer(target)
        or not clear.order < backward.order < step.order
    ):
        return False
    windows = {_window(event, program) for event in (clear, backward, step)}
    if len(windows) != 1 or None in windows:
        return False
    node = program.tree.own_node(clear.site)
    receiver = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return receiver is not None and any(dotted(receiver) == dotted(item) for item in _prepared(program))


def _prepared(program: Program) -> Iterator[ast.expr]:
    """The arguments of calls to `prepare`, and the names that receive the results."""
    for call in program.tree.of_type(ast.Call):
        if called_name(call) == "prepare":
            yield from call.args
            parent = program.tree.parent(call)
            for target in parent.targets if isinstance(parent, ast.Assign) else ():
                yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def clipped_in_window(program: Program) -> Iterator[tuple[Clip, Backward]]:
    """Clippings after each micro-batch of a window, and the pass that computes the gradients."""
    for trace in program.traces:
        for backward in _in_windows(program, trace):
            for clip in trace.of(Clip, backward.loops):
                if clip.order > backward.order and clip.loops == backward.loops and not _is_guarded(clip, program):
                    if _window(clip, program) is not None:
                        yield clip, backward


def _in_windows(program: Program, trace: Trace) -> Iterator[Backward]:
    """The passes in a block `with accelerator.accumulate(model)` with more than one micro-batch."""
    for backward in trace.of(Backward):
        if micro_batches(backward.framework) is not None and _window(backward, program) is not None:
            yield backward


def _window(event: Event, program: Program) -> ast.With | None:
    """The block `with accelerator.accumulate(model)` around an event, or around the call that leads to it."""
    for site in (event.site, *event.calls):
        node = program.tree.own_node(site)
        for item in program.tree.ancestors(node) if node is not None else ():
            if isinstance(item, ast.With) and any(_accumulates(entered.context_expr) for entered in item.items):
                return item
    return None


def _accumulates(context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and called_name(context) == "accumulate"


def _is_guarded(event: Event, program: Program) -> bool:
    """Whether a condition may delay an event to the end of a window: `if accelerator.sync_gradients`, a remainder."""
    tests = [
        program.tree.own_node(branch.site) for branch, _ in (*event.path, *event.passed) if isinstance(branch, Branch)
    ]
    return any(_asks_for_window(node) for test in tests if isinstance(test, ast.If) for node in walk(test.test))


def _asks_for_window(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return "sync" in name or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
