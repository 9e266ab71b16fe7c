"""Inner steps of meta-learning that cut the graph needed by the outer loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, held_parameters, lineage, module_values, program, values
from torchlint.pytorch import api, operators, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class CutUpdate(NamedTuple):
    """Gradients of `grad` change weights at `update`, which records no graph; `backward` follows."""

    grad: events.Grad
    update: python_ast.Site
    backward: events.Backward
    is_loaded: bool = False


class InnerStepWithoutGraph(Rule):
    """An inner step of meta-learning leaves no graph for the outer loss.

    ## What it does
    Finds gradients from `torch.autograd.grad` that the code uses only to update weights. A `backward` follows, but the
    update records no graph, for one of two reasons:

    - The call has `create_graph=True`, but each update goes through `.data` or runs under `no_grad`.
    - The code loads the new weights with `load_state_dict` into a copy that no optimizer holds, and computes the loss
      with this copy.

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
    triggers = (triggers.BACKWARD, (b"autograd",), (b"create_graph", b"load_state_dict"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[CutUpdate]:
        for trace in self.model.program.traces:
            for grad in trace.of(events.Grad) if not self.model.program.tests(trace) else ():
                steps = [step for step in trace.of(events.Step) if not step.manual and step.order > grad.order]
                found = self._update(trace, grad, steps) if steps else None
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

    def _modules(self, backward: events.Backward) -> set[values.Value]:
        return set(module_values.modules_of(self.model.tracking.pass_through(backward.loss)))

    def report_CutUpdate(self, cut: CutUpdate) -> None:
        how = "`load_state_dict` copies them" if cut.is_loaded else "autograd does not record this update"
        self.report(
            cut.update,
            f"the new weights have no graph because {how}: the outer loss does not reach the initial weights",
            related=[(cut.grad.site, "the gradients of the inner step"), (cut.backward.site, "the outer loss")],
            help="compute the new weights with a graph, and pass them to `torch.func.functional_call`",
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
