"""Loss targets computed with a graph, through a network that no optimizer trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, module_values, program, values
from torchlint.model.queries import gradient_users
from torchlint.pytorch import api, triggers
from torchlint.syntax import python_ast

_REGRESSIONS = {"mse_loss": "MSELoss", "smooth_l1_loss": "SmoothL1Loss", "huber_loss": "HuberLoss", "l1_loss": "L1Loss"}

_LEAVING_FLAGS = LazyPattern(r"update|sync|copy|count|summar|print|log|eval|test|valid|save|state_dict", re.IGNORECASE)
"""Names of functions and methods that do not change whether parameters require gradients."""


class TrackedTarget(NamedTuple):
    """The loss at `loss` compares with a target from `forward` of the module `name`, which no optimizer holds."""

    loss: python_ast.Site
    forward: python_ast.Site
    name: str
    backward: events.Backward


class TargetWithGradient(Rule):
    """A loss target has a graph through a network that no optimizer trains.

    ## What it does
    Finds regression losses (`mse_loss`, `smooth_l1_loss`, `huber_loss`, `l1_loss` and their modules) whose target has a
    graph. The target comes only from networks whose parameters no optimizer in the file holds, such as the target
    network of a DQN.

    Not reported in files that freeze parameters.

    The rule is a preview because common correct code looks the same, for example if another file trains the network.

    ## Why is this bad?
    Every `backward` also goes through the target network and computes gradients that nothing uses or clears. This costs
    time, and memory for its activations and gradients. If an optimizer ever holds these parameters, it moves the target
    toward the prediction.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(replay):
        q, q_target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
        for state, reward, following in replay:
            target = reward + 0.9 * q_target(following).max(1)[0]
            loss = F.smooth_l1_loss(q(state).max(1)[0], target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(replay):
        q, q_target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
        for state, reward, following in replay:
            with torch.no_grad():
                target = reward + 0.9 * q_target(following).max(1)[0]
            loss = F.smooth_l1_loss(q(state).max(1)[0], target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` looks at the target of the loss. It confirms the finding if the target has a graph at each call.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL209"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    preview = True
    triggers = (
        triggers.BACKWARD,
        triggers.STEP,
        tuple(word.encode() for names in _REGRESSIONS.items() for word in names),
    )

    def ask(self) -> Iterator[TrackedTarget]:
        if self.model.is_test or gradient_users.mentions_flag(self.model.tree):
            return
        for trace in self.model.program.traces:
            for backward in trace.of(events.Backward):
                graph = self.model.tracking.pass_through(backward.loss, carried=False)
                for loss in sorted(filter(_is_regression, graph), key=lambda value: value.order):
                    yield from self._tracked(trace, backward, loss)

    def _tracked(self, trace: program.Trace, backward: events.Backward, loss: values.Value) -> Iterator[TrackedTarget]:
        sides = loss.parents[1:3] if isinstance(loss, values.ModuleOutput) else loss.parents[:2]
        if len(sides) < 2 or loss.site is None:
            return
        for target, prediction in (sides, sides[::-1]):
            if self.model.tracking.tracked(target) is values.Answer.YES and self._is_trained(trace, prediction):
                forward = self._untrained(target)
                if forward is not None and forward.site is not None:
                    name = next(iter(module_values.modules_of([forward]))).label
                    yield TrackedTarget(loss.site, forward.site, name, backward)

    def _is_trained(self, trace: program.Trace, prediction: values.Value) -> bool:
        """Whether an optimizer that steps here certainly holds a module behind a prediction."""
        modules = list(module_values.modules_of(self.model.tracking.graph(prediction, carried=False)))
        optimizers = {values.resolved(step.optimizer) for step in trace.of(events.Step)}
        holds = self.model.ownership.holds
        return any(holds(item, module) is values.Answer.YES for item in optimizers for module in modules)

    def _untrained(self, target: values.Value) -> values.Value | None:
        """The forward pass that computes a target, if no optimizer holds anything in its graph."""
        graph = self.model.tracking.graph(target, carried=False)
        passes = [value for value in graph if module_values.is_forward(value)]
        modules = list(module_values.modules_of(passes))
        ends = (value for value in graph if isinstance(value, values.Parameters) or getattr(value, "leaf", False))
        if not passes or any(True for _ in ends) or not all(map(module_values.has_parameters, modules)):
            return None
        classes = [item.info for item in modules if isinstance(item, values.Module) and item.info is not None]
        if any(gradient_users.mentions_flag(info.definitions.tree) for info in classes):
            return None
        holds = self.model.ownership.holds
        held = (holds(item, module) for item in self._optimizers for module in modules)
        known = (
            self._optimizers and self._frozen.isdisjoint(modules) and all(answer is values.Answer.NO for answer in held)
        )
        return max(passes, key=lambda value: value.order) if known else None

    @cached_property
    def _frozen(self) -> set[values.Value]:
        """Arguments of unknown functions that may switch off their gradients: `freeze(teacher)`."""
        found: set[values.Value] = set()
        for trace in self.model.program.traces:
            handed = [(event.name, event.handed) for event in trace.of(events.MayClear)]
            handed += [(_name(call), call.value.parents) for call in trace.of(events.Call)]
            for name, given in handed:
                for item in given if not _LEAVING_FLAGS.search(name) else ():
                    inside = item.elements() if isinstance(item, values.Container) else [item]
                    found.update(map(values.resolved, inside))
        return found

    @cached_property
    def _optimizers(self) -> list[values.Value]:
        """All optimizers that the file creates or steps."""
        found: dict[values.Value, None] = {}
        for trace in self.model.program.traces:
            found.update({values.resolved(step.optimizer): None for step in trace.of(events.Step)})
            made = (event.value for event in trace.of(events.Fresh))
            found.update({value: None for value in made if isinstance(value, values.Optimizer)})
        stored = self.model.program.observations.stored.values()
        found.update({value: None for value in stored if isinstance(value, values.Optimizer)})
        return list(found)

    def report_TrackedTarget(self, target: TrackedTarget) -> None:
        name = f"`{target.name}`" if target.name else "a network"
        self.report(
            target.loss,
            f"the target has a graph through {name}, which no optimizer trains: `backward` computes unused gradients",
            related=[(target.forward, "the target is computed here"), (target.backward.site, "`backward` starts here")],
            help="compute the target under `torch.no_grad()`",
        )


def _name(call: events.Call) -> str:
    callee = call.value.callee
    return callee.label.rpartition(".")[2] if callee is not None else ""


def _is_regression(value: values.Value) -> bool:
    if not isinstance(value, values.Tensor) or value.mode is not api.GradMode.ON:
        return False
    module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
    name = module.name.rpartition(".")[2] if isinstance(module, values.Module) and module.info is None else ""
    return value.op in _REGRESSIONS or name in _REGRESSIONS.values()
