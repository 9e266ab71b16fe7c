"""Accumulation windows that may be open when an epoch ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Backward, Branch, Clear, Event, Step
from torchlint.model.program import Trace
from torchlint.model.relations.gradients.arrivals import Gradients
from torchlint.model.relations.gradients.windows import LoopNode, gives_from_zero, window_end
from torchlint.model.values import Value, resolved
from torchlint.syntax.python_ast import dotted, walk


class OpenWindow(NamedTuple):
    """`step` ends windows by `test`. At the end of an epoch one may be open, with gradients of `backward`.

    Its gradients stay for the next epoch, whose windows start over; or `clear` throws them away, although the window
    continues.
    """

    test: ast.If
    backward: Backward
    step: Step
    clear: Clear | None


def open_windows(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[OpenWindow]:
    """The windows of an optimizer whose counter restarts with each epoch, or continues past a clearing."""
    steps = [step for step in trace.of(Step) if resolved(step.optimizer) is optimizer]
    if len(steps) != 1 or steps[0].manual or len(steps[0].loops) < 2:
        return
    step, tree = steps[0], gradients.program.tree
    loop = tree.own_node(step.loops[-1].site)
    pending = gradients.pending(gradients.arrivals(trace, optimizer).get(step, ()))
    if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) or not pending:
        return
    for branch, arm in step.path:
        test = tree.own_node(branch.site) if isinstance(branch, Branch) else None
        counter = window_end(test.test) if isinstance(test, ast.If) and arm == 0 else None
        if counter is None or not isinstance(test, ast.If) or (branch, arm) in pending[-1].path:
            continue
        clears = [event for event in _between_epochs(trace, step) if gradients.ownership.may_clear(event, optimizer)]
        if _restarts(counter, loop) and not clears and not _is_window(loop):
            yield OpenWindow(test, pending[-1], step, None)
        elif _goes_on(counter, loop, tree.own_node(step.loops[-2].site)):
            arrivals = gradients.arrivals(trace, optimizer)
            sure = (item for item in clears if isinstance(item, Clear) and item.explicit and not item.path)
            lossy = (item for item in sure if gradients.pending(arrivals.get(item, ())))
            yield from (OpenWindow(test, pending[-1], step, clear) for clear in lossy)


def _between_epochs(trace: Trace, step: Step) -> list[Event]:
    """The events of each epoch outside the loop over batches."""
    around = step.loops[:-1]
    return [event for event in trace.of(Event, around) if event.loops == around]


def _restarts(counter: str, loop: LoopNode) -> bool:
    """Whether a loop over batches counts them itself, from zero."""
    return not isinstance(loop, ast.While) and gives_from_zero(loop, counter)


def _is_window(loop: LoopNode) -> bool:
    """Whether a loop counts by `range`, over parts of a batch, each of which is a window."""
    return not isinstance(loop, ast.While) and "enumerate" not in ast.unparse(loop.iter)


def _goes_on(counter: str, loop: LoopNode, around: ast.AST | None) -> bool:
    """Whether a counter increases in the loop over batches, and no epoch resets it."""
    nodes = list(walk(around)) if around is not None else []
    rises = [node for node in walk(loop) if isinstance(node, ast.AugAssign) and dotted(node.target) == counter]
    sets = [
        node for node in nodes if isinstance(node, ast.Assign) and any(dotted(to) == counter for to in node.targets)
    ]
    return bool(rises) and not sets
