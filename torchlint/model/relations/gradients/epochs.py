"""Accumulation windows that may be open when an epoch ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Backward, Branch, Clear, Event, Step
from torchlint.model.program import Trace
from torchlint.model.relations.gradients.arrivals import Gradients
from torchlint.model.relations.gradients.windows import LoopNode, gives_from_zero, is_number, window_end
from torchlint.model.values import Value, resolved
from torchlint.syntax.python_ast import arguments, dotted, names_bound, walk


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
    epochs = tree.own_node(step.loops[-2].site)
    function, home = tree.function_around(loop), tree.function_around(epochs) if epochs is not None else None
    for branch, arm in step.path:
        test = tree.own_node(branch.site) if isinstance(branch, Branch) else None
        if not isinstance(test, ast.If) or arm != 0 or (branch, arm) in pending[-1].path:
            continue
        last, counter = _last_step(test, loop), window_end(test.test) or _full(test)
        if counter is None and last is None:
            continue
        clears = [event for event in _between_epochs(trace, step) if gradients.ownership.may_clear(event, optimizer)]
        around = function if function is not home else None
        if counter is not None and _restarts(counter, loop) and not clears and not _is_window(loop):
            yield OpenWindow(test, pending[-1], step, None)
        elif (counter is not None and _goes_on(counter, loop, epochs, around)) or _is_kept(last, test, epochs, around):
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


def _full(test: ast.If) -> str | None:
    """The counter of a window that its end sets to zero: `if count == k: ...; count = 0`."""
    compare = test.test
    if not isinstance(compare, ast.Compare) or not isinstance(compare.ops[0], (ast.Eq, ast.GtE)):
        return None
    counter = dotted(compare.left)
    ends = [node for node in test.body if isinstance(node, ast.Assign) and dotted(node.targets[0]) == counter]
    return counter or None if ends and is_number(ends[-1].value, 0) else None


def _last_step(test: ast.If, loop: LoopNode) -> str | None:
    """The number of the last step in `if number - last >= k: ...; last = number`, with a number of all epochs."""
    compare = test.test
    if not isinstance(compare, ast.Compare) or not isinstance(compare.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
        return None
    since = compare.left
    if not isinstance(since, ast.BinOp) or not isinstance(since.op, ast.Sub) or isinstance(loop, ast.While):
        return None
    number, last = dotted(since.left), dotted(since.right)
    if not number or not last or number in names_bound(loop.target):
        return None
    ends = (node for node in test.body if isinstance(node, ast.Assign) and _sets(node, last))
    return last if any(dotted(node.value) == number for node in ends) else None


def _is_kept(last: str | None, test: ast.If, around: ast.AST | None, function: ast.AST | None) -> bool:
    """Whether nothing but the end of a window sets the number of the last step, within the loop over epochs."""
    nodes = [node for scope in (around, function) if scope is not None for node in walk(scope)]
    sets = [node for node in nodes if isinstance(node, ast.Assign) and last is not None and _sets(node, last)]
    return last is not None and all(node in test.body for node in sets)


def _goes_on(counter: str, loop: LoopNode, around: ast.AST | None, function: ast.AST | None) -> bool:
    """Whether a counter increases in the loop over batches, and no epoch resets it but at the end of a window.

    `around` is the loop over epochs; `function` contains the loop over batches if the loop over epochs calls it.
    """
    nodes = set(walk(around)) - set(walk(loop)) if around is not None else set()
    nodes |= set(walk(function)) - set(walk(loop)) if function is not None else set()
    inside = [node for node in walk(loop) if isinstance(node, ast.Assign) and _sets(node, counter)]
    rises = [node for node in walk(loop) if isinstance(node, ast.AugAssign) and dotted(node.target) == counter]
    sets = [node for node in nodes if isinstance(node, ast.Assign) and _sets(node, counter)]
    is_full = all(is_number(node.value, 0) and node not in loop.body for node in inside)
    return bool(rises) and is_full and all(_returns(node.value, counter) for node in sets)


def _sets(node: ast.Assign, counter: str) -> bool:
    elements = [item for to in node.targets for item in (to.elts if isinstance(to, ast.Tuple) else [to])]
    return any(dotted(item) == counter for item in elements)


def _returns(value: ast.expr, counter: str) -> bool:
    """Whether a call receives a counter, whose new value it returns."""
    return isinstance(value, ast.Call) and any(dotted(item) == counter for item in arguments(value))
