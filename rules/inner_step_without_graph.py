"""Inner steps of meta-learning that cut the graph needed by the outer loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, held_parameters, lineage, module_values, program, values
from torchlint.pytorch import api, operators, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_FIRST_ORDER = LazyPattern(r"(?i)first.?order|1st.?order|fo_?maml|reptile")
"""Words of programs that leave out the second order on purpose."""

_POSITIONAL = 4
"""The number of parameters of `torch.autograd.grad` before `create_graph`."""


class CutUpdate(NamedTuple):
    """Gradients of `grad` change weights at `update`, which records no graph; `backward` follows."""

    grad: events.Grad
    update: python_ast.Site
    backward: events.Backward
    is_loaded: bool = False


class ConstantGradient(NamedTuple):
    """The outer loss of `backward` depends on an update with gradients of `grad`, which are constants."""

    grad: events.Grad
    update: python_ast.Site
    backward: events.Backward


class InnerStepWithoutGraph(Rule):
    """An inner step of meta-learning leaves no graph for the outer loss.

    ## What it does
    Finds gradients from `torch.autograd.grad` that the code uses only to update weights. A `backward` follows, but the
    update records no graph, for one of two reasons:

    - The call has `create_graph=True`, but each update goes through `.data` or runs under `no_grad`.
    - The method `load_state_dict` puts the new weights into a copy that no optimizer holds, and the copy computes the
      loss.

    With `--preview`, it also finds `weight - rate * gradient` in the graph of the outer loss if the call lacks
    `create_graph`: the outer gradient is of first order only. Not reported if the program speaks of the first order.

    ## Why is this bad?
    The outer loss does not depend on the inner step. `.data`, `no_grad` and `load_state_dict` copy values only. The
    second-order gradients are missing, and a loss that the copy computes trains only the copy, which the code discards.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, optimizer, tasks):
        for x, y, query, target in tasks:
            inner = F.mse_loss(model(x), y)
            grads = torch.autograd.grad(inner, model.parameters(), create_graph=True)
            for p, g in zip(model.parameters(), grads):
                p.data = p.data - 0.1 * g
            optimizer.zero_grad()
            F.mse_loss(model(query), target).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, optimizer, tasks):
        for x, y, query, target in tasks:
            inner = F.mse_loss(model(x), y)
            grads = torch.autograd.grad(inner, model.parameters(), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(model.named_parameters(), grads)}
            optimizer.zero_grad()
            F.mse_loss(torch.func.functional_call(model, fast, query), target).backward()
            optimizer.step()
    ```

    ## References
    - [torch.func.functional_call](https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html)
    """

    code = "TL314"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"autograd",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[CutUpdate | ConstantGradient]:
        for trace in self.model.program.traces:
            for grad in trace.of(events.Grad) if not self.model.program.tests(trace) else ():
                steps = [step for step in trace.of(events.Step) if not step.manual and step.order > grad.order]
                found = (self._update(trace, grad, steps) or self._constant(trace, grad)) if steps else None
                if found is not None:
                    yield found

    def _update(self, trace: program.Trace, grad: events.Grad, steps: list[events.Step]) -> CutUpdate | None:
        """The first update with gradients whose graph has no other use, before a loss goes backward."""
        users = [event for event in trace.events if event.order > grad.order and _uses(event, grad)]
        if not users or any(isinstance(event, (events.Backward, events.Grad, events.Returned)) for event in users):
            return None
        loads = [event for event in users if isinstance(event, events.Call) and _is_load(event)]
        later = [item for item in trace.of(events.Backward) if item.order > users[0].order]
        if loads:
            copy = values.resolved(loads[0].value.parents[0])
            is_read = any(read.order > loads[0].order for read in trace.of(events.GradRead))
            is_free = not is_read and not any(_may_hold(step, copy) for step in steps)
            passes = (item for item in later if is_free and copy in self._modules(item))
            return next((CutUpdate(grad, loads[0].site, item, is_loaded=True) for item in passes), None)
        call = self.model.tree.own_node(grad.site)
        cut = {event.site for event in users if _keeps_no_graph(event)}
        is_asked = isinstance(call, ast.Call) and _creates_graph(call) and bool(later)
        is_cut = is_asked and all(event.site in cut for event in users)
        return CutUpdate(grad, users[0].site, later[0]) if is_cut else None

    def _constant(self, trace: program.Trace, grad: events.Grad) -> ConstantGradient | None:
        """The first update of parameters by constant gradients that is in the graph of an outer loss."""
        call = self.model.tree.node(grad.site)
        if not isinstance(call, ast.Call) or len(call.args) > _POSITIONAL:
            return None
        if any(item.arg in (None, "create_graph") for item in call.keywords):
            return None
        if any(_FIRST_ORDER.search(tree.source.text) for tree in self.model.program.files):
            return None
        for backward in (item for item in trace.of(events.Backward) if item.order > grad.order):
            inside = lineage.ancestry([backward.loss])
            update = next((item for item in inside if self._is_update(item, grad)), None)
            if update is not None and update.site is not None:
                return ConstantGradient(grad, update.site, backward)
        return None

    def _is_update(self, value: values.Value, grad: events.Grad) -> bool:
        """Whether a value is a parameter less a constant multiple of a gradient."""
        if not isinstance(value, values.Tensor) or value.op != operators.SUB or len(value.parents) != 2:
            return False
        weight, change = value.parents
        is_learned = any(isinstance(item, values.ModuleParameter) for item in lineage.ancestry([weight]))
        is_by_gradient = any(item.site == grad.site for item in lineage.ancestry([change]))
        has_graph, has_learned_rate = (
            self.model.tracking.tracked(item) is values.Answer.YES for item in (value, change)
        )
        return is_learned and is_by_gradient and has_graph and not has_learned_rate

    def _modules(self, backward: events.Backward) -> set[values.Value]:
        return set(module_values.modules_of(self.model.tracking.pass_through(backward.loss)))

    def report_CutUpdate(self, cut: CutUpdate) -> None:
        how = "`load_state_dict` copies them" if cut.is_loaded else "the update records no graph"
        self.report(
            cut.update,
            f"the new weights have no graph because {how}: the outer loss does not reach the initial weights",
            related=[(cut.grad.site, "the gradients of the inner step"), (cut.backward.site, "the outer loss")],
            help="compute the new weights with a graph, and pass them to `torch.func.functional_call`",
        )

    def report_ConstantGradient(self, found: ConstantGradient) -> None:
        self.report(
            found.grad.site,
            "the gradients of the inner step are constants: the outer gradient is of first order only",
            related=[(found.update, "they change weights here"), (found.backward.site, "the outer loss")],
            help="pass `create_graph=True`, or say in a comment that the first order is enough",
            confidence=Confidence.LOW,
        )


def _uses(event: events.Event, grad: events.Grad) -> bool:
    """Whether an event uses the gradients of a call; operators alone do not count."""
    if isinstance(event, (events.Compute, events.MayClear)):
        return False
    members = [*vars(event).values(), *(event.by if isinstance(event, events.Mutate) else ())]
    used = lineage.ancestry(item for item in members if isinstance(item, values.Value))
    return any(isinstance(item, values.Tensor) and item.site == grad.site for item in used)


def _keeps_no_graph(event: events.Event) -> bool:
    """Whether an event changes `.data`, or a parameter under `no_grad`."""
    changed = event.target if isinstance(event, events.Mutate) else getattr(event, "container", None)
    is_update = isinstance(event, events.Mutate) or (isinstance(event, events.Keep) and event.how is events.Keeping.ADD)
    is_data = isinstance(changed, values.Tensor) and changed.op == operators.DATA
    return is_update and (is_data or event.mode is api.GradMode.OFF)


def _is_load(call: events.Call) -> bool:
    callee = call.value.callee
    return callee is not None and callee.label == "load_state_dict" and len(call.value.parents) > 1


def _may_hold(step: events.Step, module: values.Value) -> bool:
    optimizer = values.resolved(step.optimizer)
    held, is_known = held_parameters.parameters_of(optimizer)
    return optimizer.order > module.order and (module in held or not is_known)


def _creates_graph(call: ast.Call) -> bool:
    return any(item.arg == "create_graph" and python_ast.is_literal(item.value, True) for item in call.keywords)
