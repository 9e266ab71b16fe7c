"""Derivatives in a loss that `autograd.grad` returns without a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, module_values, program, values
from torchlint.pytorch import operators, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_WEIGHING = frozenset({operators.MUL, operators.DIV, "matmul", "mm", "bmm"})
_MOST = 400
"""Maximum number of values followed from one loss."""


class DeadDerivative(NamedTuple):
    """The derivative of `grad` is a part of the loss of `backward`, and has no graph."""

    grad: events.Grad
    backward: events.Backward


class DerivativeWithoutGraph(Rule):
    """A derivative in the loss has no graph, because `create_graph=True` is missing.

    ## What it does
    Finds `torch.autograd.grad` of a network's output with respect to its input, without `create_graph=True`, where the
    result is part of a loss that trains the network. Examples are the residual of a differential equation, forces as
    the derivative of an energy, and a penalty on the gradient.

    Not reported if the derivative is an input of another pass, as in adversarial training, or only a weight of another
    part of the loss.

    ## Why is this bad?
    Without a graph the derivative is a constant. The loss shows it, but no parameter learns to change it: the network
    fits the rest of the loss and ignores the equation, the forces or the penalty.

    ## Example
    ```python
    import torch

    def train(net, optimizer, x):
        x.requires_grad_()
        for _ in range(1000):
            u = net(x)
            du = torch.autograd.grad(u.sum(), x)[0]
            loss = (du + u).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(net, optimizer, x):
        x.requires_grad_()
        for _ in range(1000):
            u = net(x)
            du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
            loss = (du + u).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.autograd.grad](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html)
    """

    code = "TL316"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"autograd",), (b"grad",))
    calls = frozenset({"grad"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward and index.has_word((b"autograd",))

    def ask(self) -> Iterator[DeadDerivative]:
        done: set[python_ast.Site] = set()
        for trace in self.model.program.traces:
            grads = {grad.site: grad for grad in trace.of(events.Grad) if not self.model.program.tests(trace)}
            for backward in trace.of(events.Backward) if grads else ():
                for site in self._dead_in(backward) if not backward.undecided else ():
                    grad = grads.get(site)
                    if grad is not None and site not in done and self._should_learn(trace, grad):
                        done.add(site)
                        yield DeadDerivative(grad, backward)

    def _dead_in(self, backward: events.Backward) -> Iterator[python_ast.Site]:
        """The calls of `grad` whose results are parts of a loss, in terms from which parameters learn."""
        terms = self.model.terms.of(backward.loss)
        stack = [term.place.value for term in terms if term.learns is not values.Answer.NO]
        seen: set[values.Value] = set()
        while stack and len(seen) < _MOST:
            value = values.resolved(stack.pop())
            if value not in seen:
                seen.add(value)
                if isinstance(value, values.Tensor) and value.op == operators.DETACH and value.site is not None:
                    yield value.site
                else:
                    stack += self._parts(value)

    def _parts(self, value: values.Value) -> list[values.Value]:
        """The values that a value adds up or changes; of a product with weights, the factors with a graph."""
        if isinstance(value, values.Phi):
            return list(value.parents)
        if isinstance(value, values.Container):
            return list(value.elements())
        if isinstance(value, values.ModuleOutput):
            module = values.resolved(value.parents[0])
            return list(value.parents[1:]) if not module_values.has_parameters(module) else []
        if not isinstance(value, values.Tensor) or value.leaf:
            return []
        if value.op in _WEIGHING:
            alive = [item for item in value.parents if self.model.tracking.tracked(item) is not values.Answer.NO]
            return alive or list(value.parents)
        return list(value.parents)

    def _should_learn(self, trace: program.Trace, grad: events.Grad) -> bool:
        """Whether a derivative is one for an input, and an optimizer may train the network that it belongs to."""
        given = values.resolved(grad.inputs) if grad.inputs is not None else None
        inputs = given.elements() if isinstance(given, values.Container) else [given] if given is not None else []
        if not inputs or not all(map(_is_input, map(values.resolved, inputs))):
            return False
        networks = set(module_values.modules_of(self.model.tracking.graph(grad.outputs)))
        for step in trace.of(events.Step) if networks else ():
            held, is_known = self.model.ownership.held_by(values.resolved(step.optimizer))
            if not step.manual and (not is_known or self.model.ownership.overlap(held, networks)):
                return True
        return False

    def report_DeadDerivative(self, found: DeadDerivative) -> None:
        self.report(
            found.grad.site,
            "this derivative has no graph, so no parameter learns from its part of the loss",
            related=[(found.backward.site, "`backward` of the loss runs here")],
            help="pass `create_graph=True`",
        )


def _is_input(value: values.Value) -> bool:
    """Whether a value is data rather than a parameter, or an output of a network."""
    return isinstance(value, (values.Tensor, values.Parameter, values.Phi)) and not isinstance(
        value, (values.ModuleParameter, values.ModuleOutput)
    )
