"""Paces: the frequency of events in loops, compared with the steps of an optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from torchlint.model.events import Backward, Branch, Event, Loop, Path, Step, repeating
from torchlint.model.program import Program, Trace
from torchlint.model.relations._horizons import Horizons
from torchlint.model.values import Value, inputs_of
from torchlint.syntax.python_ast import names_read, walk


class Pace(Enum):
    """The frequency of an event; the value is its text."""

    PROGRAM = "once"
    EPOCH = "once an epoch"
    BATCH = "once a batch"
    MICRO_BATCH = "once a micro-batch"
    UPDATE = "once an optimizer step"
    UNKNOWN = "unknown"


class Cadence(NamedTuple):
    """The pace of an event, compared with the step of an optimizer."""

    pace: Pace
    step: Step | None = None
    loops: tuple[Loop, ...] = ()
    """The loops around the step; the last iterates over batches, the others over epochs and the like."""
    every: ast.expr | None = None
    """The number of micro-batches per step, if it is written."""
    reason: str = ""
    """The reason why it is unknown."""


class Paces:
    """Answers about events in loops."""

    def __init__(self, program: Program, horizons: Horizons) -> None:
        self._program = program
        self._horizons = horizons

    def of(self, trace: Trace, event: Event, optimizer: Value) -> Cadence:
        """The frequency of an event, compared with the steps of an optimizer."""
        steps = [step for step in trace.of(Step) if _are_same(step.optimizer, optimizer)]
        own = repeating(event.loops)
        if not steps:
            return Cadence(Pace.UNKNOWN, reason="no step of the optimizer is in sight")
        step = max(steps, key=lambda item: len(_common(own, repeating(item.loops))))
        around = self._around(trace, step)
        if not around or _common(own, around) != own:
            return Cadence(Pace.UNKNOWN, step, reason="it stands in another loop than the step")
        if len(own) < len(around):
            return Cadence(Pace.EPOCH if own else Pace.PROGRAM, step, tuple(around))
        return self._in_loop(trace, event, step, tuple(around))

    def _around(self, trace: Trace, step: Step) -> list[Loop]:
        """The loops around a step, without a loop over several optimizers, which contains no backward."""
        own = repeating(step.loops)
        return max((_common(own, repeating(item.loops)) for item in trace.of(Backward)), key=len, default=[])

    # -- conditions -------------------------------------------------------------------------------------

    def _in_loop(self, trace: Trace, event: Event, step: Step, loops: tuple[Loop, ...]) -> Cadence:
        """The pace of an event in the innermost loop of a step."""
        paths = [self._conditions(item.path[len(loops[-1].path) :]) for item in (event, step)]
        own, of_step = paths
        if any(arm not in of_step for arm in own) or event.passed != step.passed:
            return Cadence(Pace.UNKNOWN, step, loops, reason="it happens under a condition of its own")
        every = next((found for arm in of_step if (found := self._divisor(arm)) is not None), None)
        if own == of_step:
            return Cadence(Pace.BATCH if every is None else Pace.UPDATE, step, loops, every)
        backward = [item for item in trace.of(Backward) if tuple(repeating(item.loops)) == loops]
        is_each = any(self._conditions(item.path[len(loops[-1].path) :]) == own for item in backward)
        if every is None or not is_each:
            return Cadence(Pace.UNKNOWN, step, loops, reason="the step happens under a condition of its own")
        return Cadence(Pace.MICRO_BATCH, step, loops, every)

    def _conditions(self, path: Path) -> list[tuple[object, int]]:
        """The arms of a path, except tests for the presence of a scheduler: `if scheduler is not None`."""
        return [arm for arm in path if not self._asks_for_presence(arm[0])]

    def _asks_for_presence(self, branch: object) -> bool:
        node = self._program.tree.node(branch.site) if isinstance(branch, Branch) else None
        test = node.test if isinstance(node, ast.If) else None
        if isinstance(test, ast.Compare):
            return isinstance(test.ops[0], (ast.Is, ast.IsNot))
        return isinstance(test, (ast.Name, ast.Attribute)) and "sched" in ast.unparse(test).rpartition(".")[2].lower()

    def _divisor(self, arm: tuple[object, int]) -> ast.expr | None:
        """The number of iterations that a condition counts: `k` of `(i + 1) % k == 0`, a variable or a number."""
        branch, _ = arm
        node = self._program.tree.node(branch.site) if isinstance(branch, Branch) else None
        tests = [node.test] if isinstance(node, ast.If) else []
        for name in names_read(tests[0]) if tests else ():
            tests += self._assigned(name, tests[0])
        found = (item for test in tests for item in walk(test) if isinstance(item, ast.BinOp))
        return next((item.right for item in found if isinstance(item.op, ast.Mod)), None)

    def _assigned(self, name: str, near: ast.AST) -> list[ast.expr]:
        value = self._horizons.assigned(name, near)
        return [value] if value is not None else []


def _are_same(first: Value, second: Value) -> bool:
    return not set(inputs_of(first)).isdisjoint(inputs_of(second))


def _common(first: Iterable[Loop], second: Iterable[Loop]) -> list[Loop]:
    """The outermost loops around both."""
    found = []
    for loop, other in zip(first, second, strict=False):
        if loop is not other:
            break
        found.append(loop)
    return found
