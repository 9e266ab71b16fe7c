"""Backpropagated losses whose forward pass ran with gradients off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint import Category, Rule, edits
from torchlint.model import events, held_parameters, lineage, program, values
from torchlint.model.relations import terms
from torchlint.pytorch import api, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class LossWithoutGraph(NamedTuple):
    """`backward` on a loss whose forward pass ran with gradients off, because of `switch`.

    It `ends_in_leaf` where the result of that pass was set to require a gradient.
    """

    backward: events.Backward
    switch: python_ast.Site | None
    ends_in_leaf: bool = False


class UntrainedModule(NamedTuple):
    """Every pass of a module, such as `forward`, runs with gradients off, though `step` updates its parameters."""

    forward: events.Event
    name: str
    step: events.Step
    switch: python_ast.Site | None


class TrainingUnderNoGrad(Rule):
    """A loss is computed with gradients off, and `backward` is called on it.

    ## What it does
    Finds a `backward` on a loss that was computed under `no_grad`, `inference_mode` or `set_grad_enabled(False)`. These
    may be a `with` block, a decorator or a statement, here or in a function that is called.

    Also finds modules whose parameters the optimizer holds but that run only with gradients off, including parts of a
    larger module.

    ## Why is this bad?
    A loss that is computed with gradients off has no graph, so `backward` raises an error. If only a part of the model
    runs with gradients off, there is no error, but this part never learns.

    ## Example
    ```python
    import torch

    @torch.no_grad()
    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
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
    If the loss has no graph, the fix removes the decorator that turns gradients off. It is unsafe, because everything
    in the function then records a graph. There is no fix for a `with` block: torchlint cannot know which of its lines
    should run without gradients. There is no fix for a module that never learns: perhaps it should be frozen, and is in
    the optimizer by mistake.

    ## What verify shows
    `torchlint verify` confirms the finding if a `backward` fails because there is no graph. It also confirms the
    finding if a module runs with gradients off and its parameters never receive a gradient. It refutes the finding if
    all trained parameters receive gradients and change.

    ## Known limits
    - Not reported: a sample that `forward` draws without gradients, if the loss also depends on the inputs of the
      sample in another way. A correct score-function estimator looks the same.
    - Not reported: a part of a module, if the optimizer holds the whole module and the file loads or freezes weights,
      or the name of the part says that it is fixed.
    - torchlint assumes that `enable_grad()` inside `inference_mode()` turns gradients on, which is not true.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL104"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, triggers.NO_GRAD)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[LossWithoutGraph | UntrainedModule | terms.UntrainedPart]:
        yield from self._losses_without_graph()
        yield from self._untrained_modules()
        yield from self.model.terms.untrained_parts()

    def _losses_without_graph(self) -> Iterator[LossWithoutGraph]:
        """Backward passes that fail, or train nothing, because their forward pass had gradients off."""
        for trace in self.model.program.traces:
            for backward in trace.of(events.Backward):
                if self._fails(backward) and self._is_reached(backward):
                    value = self._made_without_grad(backward.loss)
                    if value is not None:
                        yield LossWithoutGraph(backward, self._switch(value, backward), _ends_in_leaf(backward.loss))

    def _fails(self, backward: events.Backward) -> bool:
        """Whether a backward pass finds no graph, even if the loss is set to require a gradient."""
        return self.model.tracking.tracked(_before_leaf(backward.loss)) is values.Answer.NO

    def _is_reached(self, backward: events.Backward) -> bool:
        """Whether a function called with gradients off certainly goes backward.

        A condition in it that the call does not decide may mean training.
        """
        others = [arm for branch, taken in backward.undecided for arm in _other_arms(branch, taken)]
        return all(_raises(arm) or self._goes_backward(arm) for arm in others) and all(
            isinstance(branch, events.Branch) and _raises(branch.arms[arm]) for branch, arm in backward.escaped
        )

    def _goes_backward(self, arm: list[events.Item]) -> bool:
        return any(isinstance(event, events.Backward) and self._fails(event) for event in events.events_in(arm))

    def _made_without_grad(self, loss: values.Value) -> values.Value | None:
        """The operator or call behind the loss that ran with gradients off."""
        ends = self.model.terms.ends
        found = ends.of([terms.Place(_before_leaf(loss))]).ends
        return next((end.place.value for end in reversed(found) if end.cut is terms.Cut.NO_GRAD), None)

    def _untrained_modules(self) -> Iterator[UntrainedModule]:
        """Modules that an optimizer holds and a loss depends on, but that never run with gradients on."""
        for trace in self.model.program.traces:
            done: set[values.Value] = set()
            for step in trace.of(events.Step):
                if step.manual or step.optimizer in done:
                    continue
                done.add(step.optimizer)
                modules, known = held_parameters.parameters_of(values.resolved(step.optimizer))
                for module in modules if known else ():
                    forward = self._untrained(module, step, trace)
                    if forward is not None and not self._runs_elsewhere(forward):
                        yield UntrainedModule(forward, module.label, step, self._switch(_result(forward), forward))

    def _untrained(self, module: values.Value, step: events.Step, trace: program.Trace) -> events.Event | None:
        """A module's forward pass, if all of them run with gradients off and a loss near the step needs one."""
        calls = (event for event in trace.events if isinstance(event, (events.Compute, events.Call)))
        used = [event for event in calls if self._uses(event, module) and not _fills(event, step)]
        passes = [event for event in used if _callee(event) is module]
        if not passes or len(used) > len(passes) or any(event.mode is not api.GradMode.OFF for event in passes):
            return None
        if any(self._runs_part(event, module) for event in trace.of_kinds(events.Compute, events.Call)):
            return None
        working = [backward for backward in trace.backwards_of(step) if not self._fails(backward)]
        needed, around = lineage.ancestry([item.loss for item in working]), {item.loops for item in working}
        inside = (event for event in passes if any(event.loops[: len(loops)] == loops for loops in around))
        return next((event for event in inside if _result(event) in needed), None)

    def _uses(self, event: events.Compute | events.Call, module: values.Value) -> bool:
        """Whether a computation uses a module, or a module that contains it."""
        if module in _operands(event):
            return True
        whole = _callee(event) if event.mode is not api.GradMode.OFF else None
        return isinstance(whole, values.Module) and self.model.parts.is_part(module, whole)

    def _runs_part(self, event: events.Compute | events.Call, module: values.Value) -> bool:
        """Whether a layer of a module runs with gradients on, as in `actor.evaluate(x)`, another method."""
        part = _callee(event) if event.mode is not api.GradMode.OFF else None
        return isinstance(part, values.Module) and self.model.parts.is_part(part, module)

    def _runs_elsewhere(self, forward: events.Event) -> bool:
        """Whether the same expression runs with gradients on in another function.

        An example is `self.models["teacher"](x)` in an earlier phase of training.
        """
        tree = self.model.tree
        call = tree.node(forward.site)
        if not isinstance(call, ast.Call) or not python_ast.dotted(call.func).startswith("self"):
            return False
        passes = (event for trace in self.model.program.traces for event in trace.of_kinds(events.Compute, events.Call))
        others = (tree.node(event.site) for event in passes if event.mode is api.GradMode.ON)
        written = (other.func for other in others if isinstance(other, ast.Call))
        return any(python_ast.written_alike(call.func, func) for func in written)

    def _switch(self, value: values.Value, backward: events.Event) -> python_ast.Site | None:
        """The `with`, decorator or statement that switched gradients off."""
        tree = self.model.tree
        suspended = self.model.program.observations.suspended
        yields = [suspended[loop.over][1] for loop in backward.loops if loop.over in suspended]
        for site in (value.site, *reversed(backward.calls), *yields):
            for item in tree.ancestors(tree.node(site)) if site is not None else ():
                if isinstance(item, (ast.With, ast.AsyncWith)):
                    if any(self._switches_off(part.context_expr) for part in item.items):
                        return python_ast.site_of(item.items[0].context_expr)
                if isinstance(item, python_ast.FUNCTIONS):
                    for decorator in item.decorator_list:
                        if self._switches_off(decorator):
                            return tree.decorator_site(decorator)
        for call in tree.of_type(ast.Call):
            if self.model.definitions.named(call.func) in api.SET_GRAD_MODE:
                return python_ast.site_of(tree.statement(call))
        return None

    def _switches_off(self, node: ast.AST) -> bool:
        name = self.model.definitions.qualified(
            python_ast.dotted(node.func if isinstance(node, ast.Call) else node), node
        )
        return api.GRAD_MODES.get(name) is api.GradMode.OFF or name in api.SET_GRAD_MODE

    def report_LossWithoutGraph(self, loss: LossWithoutGraph) -> None:
        self.report(
            loss.backward.site,
            "the inputs of the loss are computed with gradients off: `backward` reaches no parameter"
            if loss.ends_in_leaf
            else "the loss is computed with gradients off: it has no graph, so `backward` raises",
            related=[(loss.switch, "gradients are switched off here")] if loss.switch is not None else [],
            help="run the forward pass with gradients on",
            fix=self._without(loss.switch),
        )

    def report_UntrainedModule(self, untrained: UntrainedModule) -> None:
        self._report_untrained(untrained.forward.site, untrained.name, untrained.step, untrained.switch)

    def report_UntrainedPart(self, untrained: terms.UntrainedPart) -> None:
        self._report_untrained(untrained.use, untrained.name, untrained.step, untrained.switch)

    def _report_untrained(
        self, site: python_ast.Site, name: str, step: events.Step, switch: python_ast.Site | None
    ) -> None:
        what = f"`{name}`" if name else "the model"
        related = [(step.site, f"`{step.name}` holds its parameters")]
        if switch is not None:
            related.append((switch, "gradients are switched off here"))
        self.report(
            site,
            f"{what} only runs with gradients off: its optimizer steps, but its parameters never learn",
            related=related,
            help="run the forward pass with gradients on, or leave the parameters out of the optimizer",
        )

    def _without(self, switch: python_ast.Site | None) -> edits.Change | None:
        decorator = self.written(switch)
        if not isinstance(decorator, cst.Decorator):
            return None
        return edits.Change("remove the decorator that switches gradients off", [edits.Delete(decorator)])


def _other_arms(branch: object, taken: int) -> list[list[events.Item]]:
    if not isinstance(branch, events.Branch):
        return [[]]  # the handler of a `try`, which may not run
    return [arm for number, arm in enumerate(branch.arms) if number != taken]


def _raises(arm: list[events.Item]) -> bool:
    return events.Exit.RAISE in arm


def _fills(event: events.Event, step: events.Step) -> bool:
    """Whether a call loads a module's weights, once, before the loop of a step."""
    callee = event.value.callee if isinstance(event, events.Call) else None
    loads = callee is not None and callee.label == "load_state_dict"
    return loads and event.order < step.order and set(event.loops).isdisjoint(step.loops)


def _result(event: events.Event) -> values.Value:
    assert isinstance(event, (events.Compute, events.Call))
    return event.value


def _operands(event: events.Compute | events.Call) -> list[values.Value]:
    return [values.resolved(item) for item in (*event.value.parents, _callee(event)) if item is not None]


def _callee(event: events.Compute | events.Call) -> values.Value | None:
    value = event.value
    if isinstance(value, values.Tensor):
        return values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
    return values.resolved(value.callee) if value.callee is not None else None


def _ends_in_leaf(loss: values.Value) -> bool:
    """Whether a loss depends on a leaf made by `requires_grad_`, at which `backward` stops."""
    made = lineage.ancestry([loss]) - {values.resolved(loss)}
    return any(isinstance(item, values.Tensor) and item.leaf and item.base is not None for item in made)


def _before_leaf(loss: values.Value) -> values.Value:
    """The loss from which `requires_grad_` makes a leaf, or the loss itself."""
    loss = values.resolved(loss)
    made = values.resolved(loss.base) if isinstance(loss, values.Tensor) and loss.leaf and loss.base else loss
    return made if isinstance(made, values.Tensor) and _is_computed(made) else loss


def _is_computed(value: values.Tensor | values.Unknown) -> bool:
    return (isinstance(value, values.Tensor) and not isinstance(value, values.NewTensor)) or (
        isinstance(value, (values.CallResult, values.UnknownObject))
    )
