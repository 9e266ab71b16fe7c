"""Cache emptying in every iteration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint import Category, Rule, Safety, edits, prefilter
from torchlint.model import definitions, events, program
from torchlint.pytorch import naming, triggers
from torchlint.syntax import python_ast

_PER_BATCH = re.compile(r"step|batch|iter")


@dataclass(frozen=True)
class CacheEmptied:
    """The cache is emptied in every iteration of a loop (None: of a function that is called per batch)."""

    site: python_ast.Site
    loop: events.Loop | None
    per_update: bool = False
    """Whether a condition lets it happen only in those iterations in which the optimizer steps."""
    changes_figures: bool = False
    """Whether something in the loop reads memory counters, which would show other figures without it."""
    shared: bool = False
    """Whether it stands in a function that is called elsewhere, too."""


class EmptyCacheInLoop(Rule):
    """The CUDA cache is emptied in every iteration of a loop.

    ## What it does
    Finds `torch.cuda.empty_cache()` (also of other backends) at every step of a training or an evaluation, directly
    or in a function that is called there. An iteration is a step if it trains, or if a model runs on what the loop
    yields.
    Nothing is said where an iteration is a job of its own: an epoch, a fold, an episode with its update, a request,
    a file, a text that is generated, a model that takes its turn, a probe of how large a batch may be. Nor is it of a
    function that measures memory, or of a test (`test_...` in a file of tests), which may want the same memory each
    time.

    ## Why is this bad?
    It hands cached blocks back to the driver, which waits for the GPU, and the next iteration has to allocate
    them again: each iteration gets slower, and no memory that PyTorch itself could not have reused is gained.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix deletes the call, with an `if` that holds nothing else. It is safe: no value changes. It is unsafe where
    something in the loop reads memory counters, which show other figures then, and in a function that is called in
    other places too, which may want it.

    ## What verify shows
    `torchlint verify` counts the calls a step. On a GPU it confirms them by the bytes that they release and
    their share of the time; on a CPU it says that it cannot tell. Rare calls refute it.

    ## References
    - [torch.cuda.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    """

    code = "TL401"
    category = Category.PERFORMANCE
    triggers = (triggers.EMPTY_CACHE,)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return prefilter.may_empty_cache_in_loop(data)

    def ask(self) -> Iterator[CacheEmptied]:
        """Cache emptying whenever something trains or infers; a test has reasons of its own."""
        for trace in self.model.program.traces:
            if self.model.program.tests(trace):
                continue
            for event in trace.of(events.EmptyCache):
                loops = events.repeating(event.loops)
                emptied = self._in_loop(trace, event, loops[-1]) if loops else self._per_batch(trace, event)
                if emptied is not None:
                    yield emptied

    def _in_loop(self, trace: program.Trace, event: events.EmptyCache, loop: events.Loop) -> CacheEmptied | None:
        from ._iterations import Iteration

        inside = [other for other in trace.events if loop in other.loops]
        beside = [other for other in trace.events if other.calls[: loop.depth] == event.calls[: loop.depth]]
        if self._measures(self._function(loop.site), beside) or self._generates(inside, loop.depth):
            return None
        iteration = Iteration(self.model.program, trace, loop)
        trained = [work for work in iteration.training() if _in_step_with(event, work)]
        inferred = len(event.path) == len(loop.path) and iteration.inference()
        if not trained and not inferred:
            return None
        per_update = bool(trained) and _is_per_update(event, inside)
        shared = len(event.calls) > loop.depth and self._has_other_callers(event.site)
        return CacheEmptied(event.site, loop, per_update, any(map(_reads_memory, inside)), shared)

    def _per_batch(self, trace: program.Trace, event: events.EmptyCache) -> CacheEmptied | None:
        """In a function without a loop that goes backward, and by its name does so for a batch."""
        if trace.root is None or trace.called or not _PER_BATCH.search(trace.root.name):
            return None
        if self._measures(trace.root, trace.events) or self._generates(trace.events, 0):
            return None
        own = [other for other in trace.events if not events.repeating(other.loops)]
        if not any(isinstance(other, events.Backward) and _in_step_with(event, other) for other in own):
            return None
        return CacheEmptied(event.site, None, changes_figures=any(map(_reads_memory, trace.events)))

    def _measures(self, function: definitions.FunctionInfo | None, inside: list[events.Event]) -> bool:
        """Whether a function measures memory, or looks for the largest batch: by its name, or since it resets the
        counters, or reads them before and after."""
        if function is not None and naming.MEASURING.search(function.name):
            return True
        probes = [other for other in inside if isinstance(other, events.MemoryProbe)]
        return any(probe.resets for probe in probes) or len(probes) > 1

    def _generates(self, inside: list[events.Event], depth: int) -> bool:
        """Whether text, or a trajectory, is generated in each iteration, `depth` calls deep: that takes seconds."""
        sites = {site for event in inside for site in (event.site, *event.calls[depth:])}
        calls = (call for call in self.model.tree.of_type(ast.Call) if python_ast.site_of(call) in sites)
        return any(naming.GENERATING.search(_called_name(call)) for call in calls)

    def _has_other_callers(self, site: python_ast.Site) -> bool:
        """Whether the function around a site is called in several places."""
        function = self._function(site)
        calls = self.model.tree.of_type(ast.Call)
        return function is not None and sum(_called_name(call) == function.name for call in calls) > 1

    def _function(self, site: python_ast.Site) -> definitions.FunctionInfo | None:
        return self.model.program.definitions.function_around(self.model.tree.node(site))

    def report_CacheEmptied(self, emptied: CacheEmptied) -> None:
        often = "at every optimizer step" if emptied.per_update else "in every iteration"
        where = "at every optimizer step of this loop" if emptied.per_update else "on every iteration of this loop"
        self.report(
            emptied.site,
            f"the cache is emptied {often}: each one waits for the GPU and allocates its memory anew",
            related=[(emptied.loop.site, where)] if emptied.loop is not None else [],
            help="delete the call; PyTorch reuses its cached memory",
            fix=self._fix(emptied.site, safe=not (emptied.changes_figures or emptied.shared)),
        )

    def _fix(self, site: python_ast.Site, *, safe: bool) -> edits.Change | None:
        call = self.nodes.at(site) if self.nodes is not None else None
        if self.nodes is None or call is None or not self.nodes.tree.stands_alone(call):
            return None
        return edits.Change("delete the call", [edits.Delete(call)], Safety.SAFE if safe else Safety.UNSAFE)


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else python_ast.dotted(call.func)


def _in_step_with(event: events.EmptyCache, work: events.Event) -> bool:
    """Whether the call happens whenever the work does: each condition on it is one on the work, too."""
    return event.path == work.path[: len(event.path)] and not _skipped(event, work)


def _skipped(event: events.Event, work: events.Event) -> events.Path:
    """The arms behind one event and not behind another that end the iteration early."""
    arms = [item for item in event.passed if item not in work.passed]
    return tuple((branch, arm) for branch, arm in arms if _goes_on(branch, arm))


def _goes_on(branch: object, arm: int) -> bool:
    return isinstance(branch, events.Branch) and any(
        isinstance(item, events.Exit) and item.kind == "continue" for item in branch.arms[arm]
    )


def _is_per_update(event: events.EmptyCache, inside: list[events.Event]) -> bool:
    """Whether the call is on a condition with an optimizer's step on which some backward pass before is not."""
    steps = any(isinstance(other, events.Step) and _in_step_with(event, other) for other in inside)
    return steps and any(
        isinstance(other, events.Backward)
        and not events.exclusive(other.path, event.path)
        and not _in_step_with(event, other)
        for other in inside
    )


def _reads_memory(event: events.Event) -> bool:
    """Whether an event reads memory counters, as far as one can tell."""
    if isinstance(event, events.Call) and event.value.callee is not None:
        return bool(naming.MEMORY_FIGURE.search(event.value.callee.label))
    return isinstance(event, events.MemoryProbe)
