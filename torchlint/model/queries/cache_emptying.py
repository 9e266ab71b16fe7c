"""Cache emptying at every step of a training or evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.model.definitions import FunctionInfo
from torchlint.model.events import (
    Backward,
    Branch,
    EmptyCache,
    Event,
    Exit,
    Loop,
    MemoryProbe,
    Path,
    Step,
    exclusive,
    repeating,
)
from torchlint.model.program import Program, Trace
from torchlint.model.queries.iterations import Iteration, called_name, reads_memory
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import Site

_PER_BATCH = re.compile(r"step|batch|iter")


@dataclass(frozen=True)
class CacheEmptied:
    """The cache is emptied in every iteration of a loop (None: of a function that is called per batch)."""

    site: Site
    loop: Loop | None
    per_update: bool = False
    """Whether a condition lets it happen only in those iterations in which the optimizer steps."""
    changes_figures: bool = False
    """Whether something in the loop reads memory counters, which would show other figures without it."""
    shared: bool = False
    """Whether it stands in a function that is called elsewhere, too."""


class CacheEmptying:
    """Answers about `empty_cache` and its kin."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._iterations: dict[Loop, Iteration] = {}

    def at_every_step(self) -> Iterator[CacheEmptied]:
        """Cache emptying whenever something trains or infers; a test has reasons of its own."""
        for trace in self.program.traces:
            if self.program.tests(trace):
                continue
            for event in trace.events:
                if isinstance(event, EmptyCache):
                    loops = repeating(event.loops)
                    found = self._in_loop(trace, event, loops[-1]) if loops else self._per_batch(trace, event)
                    if found is not None:
                        yield found

    def _iteration(self, trace: Trace, loop: Loop) -> Iteration:
        known = self._iterations.get(loop)
        if known is None:
            known = self._iterations[loop] = Iteration(self.program, trace, loop)
        return known

    def _in_loop(self, trace: Trace, event: EmptyCache, loop: Loop) -> CacheEmptied | None:
        calls = event.calls[: loop.depth]
        probes = [other for other in trace.of(MemoryProbe) if other.calls[: loop.depth] == calls]
        if self._measures(self._function(loop.site), probes):
            return None
        iteration = self._iteration(trace, loop)
        if iteration.generates:
            return None
        trained = [work for work in iteration.training if _in_step_with(event, work)]
        inferred = len(event.path) == len(loop.path) and iteration.inference
        if not trained and not inferred:
            return None
        per_update = bool(trained) and _is_per_update(event, iteration.inside)
        shared = len(event.calls) > loop.depth and self._has_other_callers(event.site)
        return CacheEmptied(event.site, loop, per_update, iteration.reads_memory, shared)

    def _per_batch(self, trace: Trace, event: EmptyCache) -> CacheEmptied | None:
        """In a function without a loop that goes backward, and by its name does so for a batch."""
        if trace.root is None or trace.called or not _PER_BATCH.search(trace.root.name):
            return None
        if self._measures(trace.root, trace.of(MemoryProbe)):
            return None
        own = [other for other in trace.events if not repeating(other.loops)]
        if not any(isinstance(other, Backward) and _in_step_with(event, other) for other in own):
            return None
        return CacheEmptied(event.site, None, changes_figures=any(map(reads_memory, trace.events)))

    def _measures(self, function: FunctionInfo | None, probes: list[MemoryProbe]) -> bool:
        """Whether a function measures memory, or looks for the largest batch: by its name, or since it resets the
        counters, or reads them before and after."""
        if function is not None and naming.MEASURING.search(function.name):
            return True
        return any(probe.resets for probe in probes) or len(probes) > 1

    def _has_other_callers(self, site: Site) -> bool:
        """Whether the function around a site is called in several places."""
        function = self._function(site)
        calls = self.program.tree.of_type(ast.Call)
        return function is not None and sum(called_name(call) == function.name for call in calls) > 1

    def _function(self, site: Site) -> FunctionInfo | None:
        return self.program.definitions.function_around(self.program.tree.node(site))


def _in_step_with(event: EmptyCache, work: Event) -> bool:
    """Whether the call happens whenever the work does: each condition on it is one on the work, too."""
    return event.path == work.path[: len(event.path)] and not _skipped(event, work)


def _skipped(event: Event, work: Event) -> Path:
    """The arms behind one event and not behind another that end the iteration early."""
    arms = [item for item in event.passed if item not in work.passed]
    return tuple((branch, arm) for branch, arm in arms if _goes_on(branch, arm))


def _goes_on(branch: object, arm: int) -> bool:
    return isinstance(branch, Branch) and any(
        isinstance(item, Exit) and item.kind == "continue" for item in branch.arms[arm]
    )


def _is_per_update(event: EmptyCache, inside: list[Event]) -> bool:
    """Whether the call is on a condition with an optimizer's step on which some backward pass before is not."""
    steps = any(isinstance(other, Step) and _in_step_with(event, other) for other in inside)
    return steps and any(
        isinstance(other, Backward) and not exclusive(other.path, event.path) and not _in_step_with(event, other)
        for other in inside
    )
