"""Steps of one network whose backward also runs through another one that they do not train."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, Severity, edits
from torchlint.model import dataflow, events, held_parameters, lineage, module_values, program, values
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import Site, dotted, site_of

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_MAX_PASSES = 60
"""The largest number of backward passes analyzed per function."""


class UnusedPass(NamedTuple):
    """`backward` runs through the call `scored` into the call `fake`, whose gradients the step does not use."""

    place: Site
    """The call `scored`, or the call to its function in this file, if other calls share that function."""
    scored: values.Value
    fake: values.Value
    backward: events.Backward
    trained: str
    """The optimizer whose step follows."""
    mixed: bool = False
    """Whether the other optimizer steps with these gradients added to those of its own loss."""
    alone: bool = True
    """Whether no other call in the loss leads to `fake`."""


class GeneratorGraphInDiscriminatorStep(Rule):
    """The discriminator's backward runs needlessly through the generator.

    ## What it does
    Finds `D(fake)` in a loss after which only the optimizer of `D` steps. `fake` is a new output of `G` that is not
    detached. The gradients that `G` receives are cleared before the optimizer of `G` steps. torchlint tells `G` and `D`
    apart by the optimizers that hold their parameters, so the rule applies to any two networks.

    ## Why is this bad?
    `backward` goes through the whole generator, whose activations stay in memory until then. Nothing uses the gradients
    that it computes there. If both networks have the same size, this is a third of the work of the step. If nothing
    clears these gradients before the generator's own `backward`, they are added to its gradients, and the generator
    learns to help the discriminator.

    ## Example
    ```python
    import torch

    def train(G, D, loader, bce, real_labels, fake_labels):
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for real in loader:
            opt_d.zero_grad()
            fake = G(torch.randn(len(real), 64))
            loss = bce(D(real), real_labels) + bce(D(fake), fake_labels)
            loss.backward()
            opt_d.step()
            opt_g.zero_grad()
            bce(D(G(torch.randn(len(real), 64))), real_labels).backward()
            opt_g.step()
    ```

    Use instead:
    ```python
    import torch

    def train(G, D, loader, bce, real_labels, fake_labels):
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for real in loader:
            opt_d.zero_grad()
            fake = G(torch.randn(len(real), 64))
            loss = bce(D(real), real_labels) + bce(D(fake.detach()), fake_labels)
            loss.backward()
            opt_d.step()
            opt_g.zero_grad()
            bce(D(G(torch.randn(len(real), 64))), real_labels).backward()
            opt_g.step()
    ```

    ## Severity
    An error if the generator steps with these gradients added to its own. An information if they are cleared.

    ## Fix safety
    The fix adds `.detach()`, which does not change the gradients of the discriminator. It is unsafe because code that
    torchlint does not see may read the gradients of the generator.

    ## What verify shows
    `torchlint verify` follows backward passes through the module's input. It confirms the finding if a backward
    computes gradients there and they are cleared before a step uses them. It refutes the finding if the backward stops
    at the input.

    ## Known limits
    Not reported: a `fake` that `torch.autograd.grad` or another `backward` also uses, and a `fake` that comes from an
    unknown function or is one of several results.

    ## References
    - [DCGAN tutorial](https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html): detaches the fake batch
    """

    code = "TL208"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[UnusedPass]:
        for trace in self.model.program.traces:
            optimizers = [
                item for item in self.model.ownership.optimizers(trace) if held_parameters.surely_optimizer(item)
            ]
            if len(optimizers) > 1 and not self.model.program.tests(trace):
                passes = trace.of(events.Backward)[:_MAX_PASSES]
                yield from _placed(trace, [item for it in passes for item in self._unused(trace, it, optimizers)])

    def _unused(
        self, trace: program.Trace, backward: events.Backward, optimizers: list[values.Value]
    ) -> Iterator[UnusedPass]:
        """The calls of one network in a loss that lead into another one."""
        step = self._stepped_after(trace, backward) if not backward.given_inputs else None
        graph = self.model.tracking.surely_through(backward.loss) if step is not None else set()
        for scored in sorted(graph, key=lambda item: item.order):
            judge = _module_called(scored)
            if judge is None or step is None or scored.site is None or not self._holds(step.optimizer, judge):
                continue
            for fake, maker in self._makers(scored):
                others = [item for item in optimizers if self._holds(item, maker) and self._leaves(item, judge)]
                if len(others) == 1 and self._leaves(step.optimizer, maker) and not self._leads_back(fake, step):
                    found = UnusedPass(scored.site, scored, fake, backward, step.name)
                    yield from self._wasted(trace, found, others[0])

    def _leads_back(self, fake: values.Value, step: events.Step) -> bool:
        """Whether a network's input may come from one that the step trains, so that gradients must reach it."""
        behind = self.model.tracking.graph(fake) - {fake}
        modules = [module for item in behind if (module := _module_called(item)) is not None]
        return not all(self._leaves(step.optimizer, module) for module in modules)

    def _stepped_after(self, trace: program.Trace, backward: events.Backward) -> events.Step | None:
        """The first step after a backward pass, in the same iteration and on each of its paths."""
        for step in trace.of(events.Step):
            if step.order > backward.order and step.loops == backward.loops and not events.apart(step, backward):
                return None if step.manual else step
        return None

    def _holds(self, optimizer: values.Value, module: values.Value) -> bool:
        return self.model.ownership.holds(optimizer, module) is values.Answer.YES

    def _leaves(self, optimizer: values.Value, module: values.Value) -> bool:
        return self.model.ownership.holds(optimizer, module) is values.Answer.NO

    # -- from the one network to the other ---------------------------------------------------------------

    def _makers(self, scored: values.Value) -> Iterator[tuple[values.Value, values.Value]]:
        """The calls to trainable networks that certainly compute the arguments of a call, with the networks."""
        if not self._passes_gradients(scored):
            return
        stack, seen = [values.resolved(item) for item in _operands(scored)], set[values.Value]()
        while stack:
            value = stack.pop()
            if value in seen or self.model.tracking.tracked(value) is not values.Answer.YES:
                continue
            seen.add(value)
            maker = _module_called(value)
            if maker is None or not module_values.has_parameters(maker):
                stack.extend(map(values.resolved, _operands(value)))
            elif not self.model.frozen.may_be_partly(maker):
                yield value, maker

    def _passes_gradients(self, scored: values.Value) -> bool:
        """Whether a network passes gradients to its inputs, as far as its class is known."""
        module = _module_called(scored)
        if not isinstance(module, values.Module) or module.info is None:
            return True
        body = scored.body if isinstance(scored, values.ModuleOutput) else None
        graph = self.model.tracking.graph(body) if body is not None else ()
        return any(isinstance(item, values.Parameter) for item in graph)

    # -- what happens to the gradients -------------------------------------------------------------------

    def _wasted(self, trace: program.Trace, found: UnusedPass, other: values.Value) -> Iterator[UnusedPass]:
        """The pass, if no step uses its gradients, or if a step uses them with those of a later backward."""
        if self._is_shared(trace, found):
            return
        states = self._states_at_steps(trace, found, other)
        if states and states <= {"clean", "given"}:
            yield found
        elif states == {"mixed"}:
            yield found._replace(mixed=True)

    def _is_shared(self, trace: program.Trace, found: UnusedPass) -> bool:
        """Whether another pass runs through the same fake, or the code reads its gradient."""
        others = [event for event in trace.of_kinds(events.Backward, events.Grad) if event is not found.backward]
        return found.fake.has_use("retain_grad", "register_hook") or any(
            found.fake in self.model.tracking.pass_through(event.outputs) for event in others
        )

    def _states_at_steps(self, trace: program.Trace, found: UnusedPass, other: values.Value) -> set[str]:
        """The states of an optimizer's gradients at its steps.

        "clean": none. "given": its own, after a clearing. "dirty" and "stepped": left over from the pass. "mixed":
        both. Or unknown.
        """
        arrivals: set[str] = set()
        alike = {event for event in trace.of(events.Backward) if self._is_for_another(trace, event, other)}

        def transfer(event: events.Event, states: frozenset[str]) -> frozenset[str]:
            if self._may_step(event, found.fake, other):
                arrivals.update(states)
            return frozenset(self._after(event, state, found, other, alike) for state in states)

        flow = dataflow.Flow(transfer)
        once = flow.run(trace.items, frozenset({"clean"}))
        if trace.root is not None:
            flow.run(trace.items, once | flow.exits.pop(events.Exit.RETURN, frozenset()))
        return arrivals

    def _may_step(self, event: events.Event, fake: values.Value, other: values.Value) -> bool:
        """Whether an event is, or may be, a step of the network that computed the fake."""
        maker = _module_called(fake)
        if not isinstance(event, events.Step) or maker is None:
            return False
        return values.resolved(event.optimizer) is other or not self._leaves(event.optimizer, maker)

    def _is_for_another(self, trace: program.Trace, backward: events.Backward, other: values.Value) -> bool:
        """Whether a backward certainly trains one optimizer, and only others step before the next one."""
        later = [event.order for event in trace.of(events.Backward) if event.order > backward.order]
        end = min(later, default=math.inf)
        steps = [step for step in trace.of(events.Step) if backward.order < step.order < end]
        is_for_others = bool(steps) and all(values.resolved(step.optimizer) is not other for step in steps)
        return is_for_others and self.model.ownership.surely_reaches(backward, other)

    def _after(
        self,
        event: events.Event,
        state: str,
        found: UnusedPass,
        other: values.Value,
        alike: Collection[events.Event],
    ) -> str:
        """The state after an event; backward passes in `alike` affect gradients like the analyzed one."""
        if event is found.backward or (event in alike and state in ("clean", "dirty", "stepped")):
            return "dirty"
        if isinstance(event, events.Fresh):
            return "clean" if event.value is _module_called(found.fake) else state
        if isinstance(event, events.Clear) and self._clears(event, other):
            return "clean" if state != "unknown" else state
        if isinstance(event, events.Step):
            return "stepped" if state == "dirty" else state
        if isinstance(event, events.Backward) and self.model.ownership.surely_reaches(event, other):
            of_both = any(_module_called(item) is _module_called(found.scored) for item in self._graph(event))
            return {"clean": "given", "stepped": "mixed" if of_both else "unknown", "dirty": "unknown"}.get(
                state, state
            )
        is_read = isinstance(event, events.GradRead) or self.model.ownership.may_clear(event, other)
        return "unknown" if is_read and state not in ("clean", "given") else state

    def _clears(self, clear: events.Clear, optimizer: values.Value) -> bool:
        return self.model.ownership.clears(clear.target, optimizer) is values.Answer.YES

    def _graph(self, backward: events.Backward) -> set[values.Value]:
        return self.model.tracking.pass_through(backward.loss, carried=False)

    # -- report ------------------------------------------------------------------------------------------

    def report_UnusedPass(self, found: UnusedPass) -> None:
        name = self._name_of_maker(found.fake)
        fate = "which then learns from this loss too" if found.mixed else "whose gradients nothing uses"
        related = [(found.backward.site, "this `backward` runs through both networks")]
        if found.fake.site is not None:
            related.insert(0, (found.fake.site, f"`{name}` is called here"))
        self.report(
            found.place,
            f"the backward for `{found.trained}` also runs through `{name}`, {fate}",
            related=related,
            help=f"detach the result of `{name}`, unless it should learn from this loss",
            severity=Severity.ERROR if found.mixed else None,
            fix=self._fix(found) if found.alone and found.place == found.scored.site else None,
        )

    def _name_of_maker(self, fake: values.Value) -> str:
        node = self.model.tree.node(fake.site)
        name = dotted(node.func).removesuffix(".forward") if isinstance(node, ast.Call) else ""
        return name or "another network"

    def _fix(self, found: UnusedPass) -> edits.Change | None:
        """`.detach()` after the one argument that leads to the other network."""
        call = self.model.tree.node(found.place)
        if not isinstance(call, ast.Call) or any(isinstance(item, ast.Starred) for item in call.args):
            return None
        given = zip(call.args, _operands(found.scored), strict=False)
        leading = [node for node, value in given if found.fake in lineage.ancestry([value])]
        if len(leading) != 1:
            return None
        written = self.written(site_of(leading[0]))
        return edits.Change("detach it", [edits.Append(written, ".detach()")]) if written is not None else None


def _module_called(value: values.Value) -> values.Value | None:
    """The callee of a value, if it may be a module."""
    if isinstance(value, values.ModuleOutput):
        return values.resolved(value.parents[0])
    callee = value.callee if isinstance(value, values.CallResult) else None
    return values.resolved(callee) if callee is not None else None


def _operands(value: values.Value) -> tuple[values.Value, ...]:
    """The values that pass gradients into a value: the arguments of a module, the operands of an operator."""
    if isinstance(value, values.Container):
        return tuple(value.elements())
    if not isinstance(value, values.Tensor):
        return value.parents if _module_called(value) is not None else ()
    return value.parents[1:] if isinstance(value, values.ModuleOutput) else lineage.graph_inputs(value)


def _placed(trace: program.Trace, found: list[UnusedPass]) -> Iterator[UnusedPass]:
    """Findings moved to the call, where other calls use the same function correctly."""
    wrong = {item.scored for item in found}
    first: dict[tuple[events.Backward, values.Value], UnusedPass] = {}
    for item in found:
        key = (item.backward, item.fake)
        first[key] = first[key]._replace(alone=False) if key in first else item
    for item in first.values():
        alike = [event for event in trace.of_kinds(events.Compute, events.Call) if event.site == item.place]
        own = next(event for event in alike if event.value is item.scored)
        right = {site for event in alike if event.value not in wrong for site in (*event.calls, event.site)}
        place = next((site for site in (own.site, *reversed(own.calls)) if site not in right), own.site)
        yield item._replace(place=place)
