"""Host reads that repeatedly make a training loop wait for the GPU."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, program
from torchlint.model.queries import host_reads
from torchlint.pytorch import naming, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.queries.host_reads import HostRead, HostReads

_OVER_PARAMETERS = frozenset({"parameters", "named_parameters"})
_CHOOSING = (ast.Subscript, ast.IfExp, ast.BoolOp)
"""Statements that may skip some or all parameters."""
_LONGEST_NAME = 40


class SecondRead(NamedTuple):
    """Each iteration of a training loop reads `second` after `first`."""

    first: HostRead
    second: HostRead


class ReadPerParameter(NamedTuple):
    """Each iteration of a training loop reads every parameter, in the loop at `inner`."""

    read: HostRead
    inner: python_ast.Site
    loop: python_ast.Site


class SyncInTrainingLoop(Rule):
    """A training loop waits for the GPU several times in each iteration.

    ## What it does
    Finds training loops that read several results from the GPU in each iteration, or one per parameter. It looks at
    `.item()`, `.tolist()`, `.cpu()` and `float(...)` on results of the model, the loss or `backward`.

    Not reported:

    - one `loss.item()` per iteration
    - the same number read again with no `backward` or `step` in between, when the GPU has nothing to do
    - reads under a condition, such as every 100 steps
    - files in which nothing moves to a GPU

    ## Why is this bad?
    The GPU sits idle. Python queues work for the GPU and continues, but a read waits until all of that work is done.
    With small models and one read per parameter, the wait takes most of an iteration.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        model.cuda()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.cuda()), y.cuda()).backward()
            total = 0.0
            for p in model.parameters():
                total += p.grad.norm().item() ** 2
            optimizer.step()
            print(total ** 0.5)
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        model.cuda()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.cuda()), y.cuda()).backward()
            total = torch.nn.utils.get_total_norm(p.grad for p in model.parameters())
            optimizer.step()
            print(total.item())
    ```

    ## Known limits
    Not reported: several reads in a function that the loop calls, and reads of values that torchlint does not know to
    be results of the model, such as the result of `clip_grad_norm_`.

    ## References
    - [Avoid unnecessary CPU-GPU synchronization](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization)
    """

    code = "TL403"
    category = Category.PEDANTIC
    preview = True
    triggers = (
        triggers.BACKWARD,
        triggers.STEP,
        (b"item", b"tolist", b"cpu", b"float"),
        (
            b"cuda",
            b"device",
            b"mps",
            b"xpu",
            b"npu",
            b"hpu",
            b"gpu",
            b"rank",
            b"accelerate",
            b"lightning",
            b"deepspeed",
        ),
    )

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[SecondRead | ReadPerParameter]:
        """Reads in training loops of files that move something to a GPU."""
        if self.model.is_test or not host_reads.leaves_host(self.model.definitions):
            return
        reads = host_reads.HostReads(self.model)
        for trace in self.model.program.traces:
            for loop in self._training_loops(trace):
                yield from self._second_reads(reads, trace, loop)
                yield from self._reads_per_parameter(reads, trace, loop)

    def _training_loops(self, trace: program.Trace) -> Iterator[events.Loop]:
        """The innermost loops that go backward and step once per batch, and not with an environment."""
        stepping = {loop for step in trace.of(events.Step) for loop in events.repeating(step.loops)[-1:]}
        backward = (loop for event in trace.of(events.Backward) for loop in events.repeating(event.loops)[-1:])
        for loop in dict.fromkeys(backward):
            node = self.model.tree.own_node(loop.site)
            if loop in stepping and node is not None and not loop.always_leaves and not _plays(node):
                iteration = self.model.cadence.iteration(trace, loop)
                if iteration.training and not iteration.generates:
                    yield loop

    # -- several reads ------------------------------------------------------------------------------------

    def _second_reads(self, reads: HostReads, trace: program.Trace, loop: events.Loop) -> Iterator[SecondRead]:
        node = self.model.tree.node(loop.site)
        work = [event for event in trace.of_kinds(events.Backward, events.Step) if loop in event.loops]
        places = [event.place_in(loop).start for event in work]
        trained = min(places)
        ends = [site.start for site in self._exits(node, ast.Continue) if site.start > trained]
        always: list[HostRead] = []
        for read in reads.reads:
            if not read.is_made_in(loop.site) or not reads.happens_always(read.node, node):
                continue
            if any(end < read.start for end in ends) or _is_known(read, always, places):
                continue
            always.append(read)
        if len(always) > 1:
            yield SecondRead(*always[:2])

    # -- a read for each parameter ------------------------------------------------------------------------

    def _reads_per_parameter(
        self, reads: HostReads, trace: program.Trace, loop: events.Loop
    ) -> Iterator[ReadPerParameter]:
        for inner in self._loops_over_parameters(trace, loop):
            node = self.model.tree.node(inner.site)
            names = _targets(node)
            ends = [self.model.tree.node(site) for site in self._exits(node, ast.Continue)]
            if self._exits(node, ast.Break, ast.Return) or not all(self._skips(reads, end, node) for end in ends):
                continue
            for read in reads.reads:
                made = read.is_made_in(inner.site) or not names.isdisjoint(python_ast.names_read(read.tensor))
                if made and read.reads_number and reads.happens_always(read.node, node, names):
                    yield ReadPerParameter(read, inner.site, loop.site)

    def _skips(self, reads: HostReads, end: ast.AST, loop: ast.AST) -> bool:
        """Whether a `continue` depends on the parameter alone."""
        return reads.happens_always(end, loop, _targets(loop))

    def _loops_over_parameters(self, trace: program.Trace, loop: events.Loop) -> list[events.Loop]:
        """The loops over parameters that run in each iteration of a training loop."""
        guards = {arm for event in trace.of(events.Backward) if loop in event.loops for arm in event.passed}
        found = dict.fromkeys(
            events.repeating(event.loops)[-1]
            for event in trace.events
            if loop in event.loops and self._is_on_no_condition(event, loop, guards)
        )
        return [inner for inner in found if inner is not loop and self._goes_over_parameters(inner)]

    def _is_on_no_condition(
        self, event: events.Event, loop: events.Loop, guards: Collection[tuple[object, int]]
    ) -> bool:
        """Whether an event's innermost loop runs in each iteration of another loop, after `guards`."""
        inner = self.model.tree.own_node(events.repeating(event.loops)[-1].site)
        around = [*event.path[len(loop.path) :], *(arm for arm in event.passed if arm not in guards)]
        return inner is not None and all(
            isinstance(branch, events.Branch) and inner in self.model.tree.ancestors(self.model.tree.node(branch.site))
            for branch, _ in around
        )

    def _goes_over_parameters(self, loop: events.Loop) -> bool:
        over = _iterable(self.model.tree.node(loop.site))
        if over is None or any(isinstance(item, _CHOOSING) for item in python_ast.walk(over)):
            return False
        calls = [python_ast.called_name(item) for item in python_ast.walk(over) if isinstance(item, ast.Call)]
        return not _OVER_PARAMETERS.isdisjoint(calls) and "islice" not in calls

    # -- exits --------------------------------------------------------------------------------------------

    def _exits(self, loop: ast.AST, *kinds: type[ast.AST]) -> list[python_ast.Site]:
        """The places that leave a loop, or end an iteration."""
        around = (*python_ast.LOOPS, *python_ast.SCOPES)
        return [
            python_ast.site_of(node)
            for node in python_ast.walk(loop)
            if isinstance(node, kinds)
            and next((item for item in self.model.tree.ancestors(node) if isinstance(item, around)), None) is loop
        ]

    # -- report -------------------------------------------------------------------------------------------

    def report_SecondRead(self, answer: SecondRead) -> None:
        self.report(
            python_ast.site_of(answer.second.node),
            f"{self._name(answer.second)} makes the CPU wait for the GPU a second time in each iteration",
            related=[(python_ast.site_of(answer.first.node), f"the CPU waits first for {self._name(answer.first)}")],
            help="read them together (`torch.stack([...]).tolist()`), or every few steps",
        )

    def report_ReadPerParameter(self, answer: ReadPerParameter) -> None:
        self.report(
            python_ast.site_of(answer.read.node),
            f"{self._name(answer.read)} is read for each parameter: each read makes the CPU wait for the GPU",
            related=[(answer.inner, "for each parameter"), (answer.loop, "on every iteration of this loop")],
            help="use `torch.nn.utils.get_total_norm`, or stack the results and read them once",
        )

    def _name(self, read: HostRead) -> str:
        code = self.model.tree.code(read.tensor)
        return f"`{code}`" if len(code) <= _LONGEST_NAME and "\n" not in code else "this result"


def _plays(loop: ast.AST) -> bool:
    """Whether a loop steps an environment, which needs the actions on the host."""
    calls = (node for node in python_ast.walk(loop) if isinstance(node, ast.Call))
    return any(naming.ENVIRONMENT_STEP.search(python_ast.dotted(call.func)) for call in calls)


def _is_known(read: HostRead, earlier: list[HostRead], work: list[tuple[int, int]]) -> bool:
    """Whether an earlier read was of the same tensor, with no large GPU work in between."""
    return any(
        before.origins == read.origins and not any(before.start < start < read.start for start in work)
        for before in earlier
    )


def _iterable(loop: ast.AST) -> ast.expr | None:
    """The iterable of a loop, or of a comprehension with one `for`."""
    generators = getattr(loop, "generators", [loop])
    return getattr(generators[0], "iter", None) if len(generators) == 1 else None


def _targets(loop: ast.AST) -> set[str]:
    """The variables of a loop or a comprehension."""
    headers = getattr(loop, "generators", [loop])
    targets = [header.target for header in headers if hasattr(header, "target")]
    return {node.id for target in targets for node in python_ast.walk(target) if isinstance(node, ast.Name)}
