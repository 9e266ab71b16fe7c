"""Cache emptying in every iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule, Safety, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions, events, program
from torchlint.model.relations import cadence
from torchlint.pytorch import naming, triggers
from torchlint.syntax import python_ast

_PER_BATCH = LazyPattern(r"step|batch|iter")


class CacheEmptied(NamedTuple):
    """Every iteration of `loop` empties the cache; without a loop, a function that is called per batch."""

    site: python_ast.Site
    loop: events.Loop | None
    per_update: bool = False
    """Whether a condition limits the call to iterations in which the optimizer steps."""
    changes_figures: bool = False
    """Whether the loop reads memory counters, whose values would change without the call."""
    shared: bool = False
    """Whether the call is in a function that other code calls too."""


class EmptyCacheInLoop(Rule):
    """The CUDA cache is emptied in every iteration of a loop.

    ## What it does
    Finds calls of `torch.cuda.empty_cache()` that run in every training or evaluation step, including those in
    functions that the step calls. Also finds `empty_cache` of other backends, such as `torch.mps.empty_cache()`. A
    *step* is an iteration that trains, or that runs a model on the data of the loop.

    Not reported:

    - iterations that are independent of each other and may need very different memory: an epoch, a fold, an RL episode
      with its update, a request, a file, a generated text, one of several models, a trial of a batch size
    - functions that measure memory
    - tests (`test_...` in a test file), which may need the same memory each time
    - calls right after `del` or `net.cpu()`, where the author releases memory on purpose

    ## Why is this bad?
    Each step gets slower. `empty_cache` waits for the GPU and returns memory to the driver. The next step has to
    allocate this memory again. Without the call, PyTorch reuses the memory by itself. On an H200, a ResNet-18 step took
    11.0 ms with the call and 8.8 ms without it. A step of a Transformer with six layers took 17.0 ms with the call and
    14.4 ms without it.

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
    The fix deletes the call. If the call is alone in an `if`, the fix deletes the `if`, too. It is safe because no
    value changes. It is unsafe in two cases: the loop reads memory counters, whose values differ without the call, or
    other code also calls the function that contains the call.

    ## What verify shows
    `torchlint verify` counts the calls in each step. On a GPU, it confirms the finding if the calls release memory, or
    if they take a measurable part of the time. It refutes the finding if the calls are rare. On a CPU, the call costs
    no time, so the finding is inconclusive.

    ## References
    - [torch.cuda.empty_cache](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html)
    """

    code = "TL401"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    triggers = (triggers.EMPTY_CACHE,)

    def ask(self) -> Iterator[CacheEmptied]:
        """Cache emptying next to training or inference; tests may need it."""
        for trace in self.model.program.traces:
            if self.model.program.tests(trace):
                continue
            for event in trace.of(events.EmptyCache):
                if self._is_optional(event) or self._is_given_back(event):
                    continue
                loops = events.repeating(event.loops)
                emptied = self._in_loop(trace, event, loops[-1]) if loops else self._per_batch(trace, event)
                if emptied is not None:
                    yield emptied

    def _is_optional(self, event: events.EmptyCache) -> bool:
        """Whether a parameter that is False by default enables the call in the loop, to save memory."""
        loops = events.repeating(event.loops)
        for branch, arm in event.path[len(loops[-1].path) if loops else 0 :]:
            node = self.model.tree.node(branch.site) if isinstance(branch, events.Branch) else None
            if isinstance(node, ast.If) and arm == 0 and not self._off(node).isdisjoint(_required(node.test)):
                return True
        return False

    def _is_given_back(self, event: events.EmptyCache) -> bool:
        """Whether the code deletes tensors or moves a module off the GPU right before.

        Garbage collection may come in between. The author then releases memory on purpose.
        """
        node = self.model.tree.node(event.site)
        last = self._last_before(node)
        parent = self.model.tree.parent(self.model.tree.statement(node))
        if last is None and isinstance(parent, ast.If) and "is_available" in self.model.tree.code(parent.test):
            last = self._last_before(parent)
        return isinstance(last, ast.Delete) or (last is not None and _moves_off(last))

    def _last_before(self, node: ast.AST) -> ast.AST | None:
        """The statement before a node's statement in its block, ignoring garbage collection."""
        return next((item for item in reversed(self.model.tree.before(node)) if not _collects_garbage(item)), None)

    def _is_seldom(self, event: events.EmptyCache, loop: events.Loop) -> bool:
        """Whether a condition limits the call to some iterations: `if step % 500 == 0:`."""
        nodes = (self.model.tree.node(getattr(branch, "site", None)) for branch, _ in event.path[len(loop.path) :])
        tests = [node.test for node in nodes if isinstance(node, ast.If)]
        found = (item for test in tests for item in python_ast.walk(test) if isinstance(item, ast.BinOp))
        return any(isinstance(item.op, ast.Mod) for item in found)

    def _off(self, node: ast.AST) -> set[str]:
        """The parameters in conditions around a node that are False by default."""
        function = self.model.definitions.function_around(node)
        defaults = definitions.defaults_of(function.node) if function is not None else {}
        return {name for name, value in defaults.items() if python_ast.is_literal(value, False)}

    def _in_loop(self, trace: program.Trace, event: events.EmptyCache, loop: events.Loop) -> CacheEmptied | None:
        if events.handlers(event.path[len(loop.path) :]):
            return None
        calls = event.calls[: loop.depth]
        beside = [probe for probe in trace.of(events.MemoryProbe) if probe.calls[: loop.depth] == calls]
        iteration = self.model.cadence.iteration(trace, loop)
        if self._measures(self._function(loop.site), beside) or iteration.generates:
            return None
        if self._is_seldom(event, loop) and not _is_per_update(event, iteration.inside):
            return None
        trained = [work for work in iteration.training if _in_step_with(event, work)]
        is_every = len(event.path) == len(loop.path) and not any(_goes_on(*item) for item in event.passed)
        inferred = is_every and iteration.inference
        if not trained and not inferred:
            return None
        per_update = bool(trained) and _is_per_update(event, iteration.inside)
        shared = len(event.calls) > loop.depth and self._has_other_callers(event.site)
        return CacheEmptied(event.site, loop, per_update, iteration.reads_memory, shared)

    def _per_batch(self, trace: program.Trace, event: events.EmptyCache) -> CacheEmptied | None:
        """Whether the call is in a function without a loop that goes backward and handles one batch, by its name."""
        if trace.root is None or trace.called or not _PER_BATCH.search(trace.root.name):
            return None
        if events.handlers(event.path):
            return None
        if self._measures(trace.root, trace.of(events.MemoryProbe)) or cadence.generates(
            trace.events, 0, self.model.tree
        ):
            return None
        own = [other for other in trace.events if not events.repeating(other.loops)]
        if not any(isinstance(other, events.Backward) and _in_step_with(event, other) for other in own):
            return None
        return CacheEmptied(event.site, None, changes_figures=any(map(cadence.reads_memory, trace.events)))

    def _measures(self, function: definitions.FunctionInfo | None, probes: list[events.MemoryProbe]) -> bool:
        """Whether a function measures memory, or looks for the largest batch.

        Its name says so, or it resets the counters, or it reads them before and after.
        """
        if function is not None and naming.MEASURING.search(function.name):
            return True
        return any(probe.resets for probe in probes) or len(probes) > 1

    def _has_other_callers(self, site: python_ast.Site) -> bool:
        """Whether several places call the function around a site."""
        function = self._function(site)
        calls = self.model.tree.of_type(ast.Call)
        return function is not None and sum(cadence.called_name(call) == function.name for call in calls) > 1

    def _function(self, site: python_ast.Site) -> definitions.FunctionInfo | None:
        return self.model.definitions.function_around(self.model.tree.node(site))

    def report_CacheEmptied(self, emptied: CacheEmptied) -> None:
        often = "at every optimizer step" if emptied.per_update else "in every iteration"
        where = "at every optimizer step of this loop" if emptied.per_update else "on every iteration of this loop"
        self.report(
            emptied.site,
            f"the cache is emptied {often}: each one waits for the GPU and reallocates its memory",
            related=[(emptied.loop.site, where)] if emptied.loop is not None else [],
            help="delete the call, since PyTorch reuses its cached memory",
            fix=self._fix(emptied.site, safe=not (emptied.changes_figures or emptied.shared)),
        )

    def _fix(self, site: python_ast.Site, *, safe: bool) -> edits.Change | None:
        call = self.written(site)
        if self.nodes is None or call is None or not self.nodes.tree.stands_alone(call):
            return None
        return edits.Change("delete the call", [edits.Delete(call)], Safety.SAFE if safe else Safety.UNSAFE)


def _collects_garbage(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and python_ast.dotted(node.value.func) == "gc.collect"
    )


def _moves_off(node: ast.AST) -> bool:
    """`net.cpu()` or `net.to("cpu")` as a statement, which only has an effect on modules."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name, given = python_ast.called_name(call), python_ast.arguments(call)
    return (name == "cpu" and not given) or (
        name == "to" and any(isinstance(item, ast.Constant) and item.value == "cpu" for item in given)
    )


def _required(test: ast.expr) -> set[str]:
    """The names that must be true for a condition to be true."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _in_step_with(event: events.EmptyCache, work: events.Event) -> bool:
    """Whether the call runs whenever the work does: each of its conditions also controls the work."""
    return event.path == work.path[: len(event.path)] and not _skipped(event, work)


def _skipped(event: events.Event, work: events.Event) -> events.Path:
    """The branches that end the iteration early after one event and not after another."""
    arms = [item for item in event.passed if item not in work.passed]
    return tuple((branch, arm) for branch, arm in arms if _goes_on(branch, arm))


def _goes_on(branch: object, arm: int) -> bool:
    return isinstance(branch, events.Branch) and any(
        item in (events.Exit.CONTINUE, events.Exit.RETURN) for item in branch.arms[arm]
    )


def _is_per_update(event: events.EmptyCache, inside: list[events.Event]) -> bool:
    """Whether the call shares a condition with an optimizer's step that an earlier backward does not have."""
    steps = any(isinstance(other, events.Step) and _in_step_with(event, other) for other in inside)
    return steps and any(
        isinstance(other, events.Backward)
        and not events.exclusive(other.path, event.path)
        and not _in_step_with(event, other)
        for other in inside
    )
