"""Evaluations whose gradients a step uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, program, values
from torchlint.model.queries import held_out
from torchlint.model.relations import mode
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class Learning(NamedTuple):
    """`step` uses the gradients of `backward`, whose forward pass evaluates since `switch`."""

    switch: events.ModeSwitch
    backward: events.Backward
    step: events.Step


class EvaluationThatTrains(Rule):
    """The evaluation of each epoch calls `backward`, and a step uses its gradients.

    ## What it does
    Finds loops that train a model in training mode and, after `model.eval()`, run a second loop that also computes
    gradients. A step in this second loop, or the first step of the next epoch, uses these gradients.

    ## Why is this bad?
    The model trains on the validation data. The validation loss falls, but says nothing about new data.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader, val_loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            for x, y in val_loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader, val_loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for x, y in val_loader:
                    print(F.cross_entropy(model(x), y).item())
    ```
    """

    code = "TL157"
    category = Category.CORRECTNESS
    preview = True
    triggers = (triggers.EVAL, triggers.BACKWARD)
    calls = frozenset({"eval"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[Learning]:
        found: dict[python_ast.Site, Learning] = {}
        for trace in [] if self.model.is_test else self.model.program.traces:
            if any(switch.training is False for switch in trace.of(events.ModeSwitch)):
                for module, own in itertools.islice(self.model.mode.by_module(trace).items(), mode.MAX_MODULES):
                    for learning in self._in(trace, module, own):
                        found.setdefault(learning.backward.site, learning)
        yield from found.values()

    def _in(self, trace: program.Trace, module: values.Value, own: list[mode.Pass]) -> Iterator[Learning]:
        trained = [item for item in own if self.model.mode.is_trained(trace, item)]
        switch_to = partial(self.model.mode.switch, trace, module=module)
        in_training = [item for item in trained if switch_to(item, training=True) is not None]
        for forward in own if in_training else ():
            switch = switch_to(forward, training=False)
            if switch is not None and any(_is_apart(forward, other, switch) for other in in_training):
                yield from self._used(trace, forward, switch)

    def _used(self, trace: program.Trace, forward: mode.Pass, switch: events.ModeSwitch) -> Iterator[Learning]:
        """The backward pass through a forward pass whose gradients a step uses."""
        data = events.repeating(forward.loops)[-1].over
        if data is not None and held_out.is_named_training(values.resolved(data).label):
            return
        for backward in trace.of(events.Backward):
            if backward.loops == forward.loops and forward.value in self.model.tracking.pass_through(backward.loss):
                for step in trace.of(events.Step):
                    if self.model.gradients.uses(trace, step, backward) is values.Answer.YES:
                        yield Learning(switch, backward, step)
                        break

    def report_Learning(self, found: Learning) -> None:
        self.report(
            found.backward.site,
            f"this evaluation trains the model: `{found.step.name}` uses its gradients",
            related=[(found.switch.site, "`eval()` starts the evaluation"), (found.step.site, "this step uses them")],
            help="evaluate under `torch.no_grad()`",
        )


def _is_apart(forward: mode.Pass, other: mode.Pass, switch: events.ModeSwitch) -> bool:
    """Whether two passes are in different loops of one outer loop, with a switch between them."""
    first, second = events.repeating(forward.loops), events.repeating(other.loops)
    if not first or not second or first[-1] in second or second[-1] in first:
        return False
    common = [loop for loop in first if loop in second]
    return bool(common) and common[-1] in switch.loops and other.order < switch.order < forward.order
