"""Evaluations whose gradients a step uses."""

from __future__ import annotations

import ast
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


class TrainingPhase(NamedTuple):
    """`step` and `backward` run in each phase of `loop`, also in `phase`, which evaluates."""

    loop: python_ast.Site
    backward: events.Backward
    step: events.Step
    phase: str


class EvaluationThatTrains(Rule):
    """The evaluation of each epoch calls `backward`, and a step uses its gradients.

    ## What it does
    Finds loops that train a model in training mode and, after `model.eval()`, run a second loop that also computes
    gradients. A step in this second loop, or the first step of the next epoch, uses these gradients.

    Also finds `for phase in ["train", "val"]` where `backward` and the step run in both phases.

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
    triggers = ((*triggers.EVAL, b"phase", b"mode"), triggers.BACKWARD, (b"val", b"test"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[Learning | TrainingPhase]:
        found: dict[python_ast.Site, Learning] = {}
        for trace in [] if self.model.is_test else self.model.program.traces:
            if any(switch.training is False for switch in trace.of(events.ModeSwitch)):
                for module, own in itertools.islice(self.model.mode.by_module(trace).items(), mode.MAX_MODULES):
                    for learning in self._in(trace, module, own):
                        found.setdefault(learning.backward.site, learning)
        yield from found.values()
        yield from self._phases()

    def _phases(self) -> Iterator[TrainingPhase]:
        """The loops over training and validation that train in both."""
        loops = [loop for loop in self.model.tree.of_type(ast.For) if _held_out_phase(loop) is not None]
        for trace in self.model.program.traces if loops and not self.model.is_test else ():
            for step in trace.of(events.Step):
                loop = self._around_all(loops, step.site)
                if loop is None:
                    continue
                before = (item for item in trace.backwards_of(step) if self._around_all([loop], item.site) is loop)
                if (backward := next(before, None)) is not None:
                    loops.remove(loop)
                    yield TrainingPhase(python_ast.site_of(loop), backward, step, _held_out_phase(loop) or "")

    def _around_all(self, loops: list[ast.For], site: python_ast.Site) -> ast.For | None:
        """The loop over phases around a call that runs in each of them."""
        passed: list[ast.AST] = []
        for item in self.model.tree.around(self.model.tree.node(site)):
            if isinstance(item, ast.For) and item in loops:
                asked = _derived(item, (ast.Compare, ast.BoolOp, ast.UnaryOp))
                tests = [node.test for node in passed if isinstance(node, (ast.If, ast.While))]
                contexts = [part.context_expr for node in passed if isinstance(node, ast.With) for part in node.items]
                leaving = [node.test for node in python_ast.walk(item) if isinstance(node, ast.If) and _leaves(node)]
                is_asked = any(
                    not asked.isdisjoint(python_ast.names_in(test)) for test in [*tests, *contexts, *leaving]
                )
                data = [node.iter for node in passed if isinstance(node, ast.For)]
                chosen = _derived(item, (ast.Subscript, ast.Call))
                is_for_data = any(not chosen.isdisjoint(python_ast.names_in(node)) for node in data)
                return item if is_for_data and not is_asked else None
            passed.append(item)
        return None

    def _in(self, trace: program.Trace, module: values.Value, own: list[mode.Pass]) -> Iterator[Learning]:
        trained = [item for item in own if self.model.mode.is_trained(trace, item)]
        switch_to = partial(self.model.mode.switch, trace, module=module)
        in_training = [item for item in trained if switch_to(item, training=True) is not None]
        for forward in own if in_training else ():
            switch = switch_to(forward, training=False)
            if switch is not None and any(_is_apart(forward, other, switch) for other in in_training):
                yield from self._used(trace, module, forward, switch)

    def _used(
        self, trace: program.Trace, module: values.Value, forward: mode.Pass, switch: events.ModeSwitch
    ) -> Iterator[Learning]:
        """The backward pass through a forward pass whose gradients a step of the same module uses."""
        data = events.repeating(forward.loops)[-1].over
        if data is not None and held_out.is_named_training(values.resolved(data).label):
            return
        for backward in trace.of(events.Backward):
            if backward.loops == forward.loops and forward.value in self.model.tracking.pass_through(backward.loss):
                for step in trace.of(events.Step):
                    held = self.model.ownership.holds(values.resolved(step.optimizer), module)
                    is_used = self.model.gradients.uses(trace, step, backward) is values.Answer.YES
                    if is_used and held is values.Answer.YES:
                        yield Learning(switch, backward, step)
                        break

    def report_TrainingPhase(self, found: TrainingPhase) -> None:
        self.report(
            found.backward.site,
            f'the phase "{found.phase}" trains the model too: no condition on the phase guards this `backward`',
            related=[(found.loop, "this loop repeats it for each phase"), (found.step.site, "this step uses them")],
            help='call `backward` and `step` only `if phase == "train"`',
        )

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


def _held_out_phase(loop: ast.For) -> str | None:
    """The phase for evaluation of a loop over literal phases of which another one is for training."""
    names = [item.value for item in getattr(loop.iter, "elts", []) if isinstance(item, ast.Constant)]
    texts = [item for item in names if isinstance(item, str)]
    is_training = any(map(held_out.is_named_training, texts))
    return next(filter(held_out.is_named_held_out, texts), None) if is_training else None


def _derived(loop: ast.For, kinds: tuple[type[ast.expr], ...]) -> set[str]:
    """The variable of a loop, and the variables that are computed from it by expressions of these kinds."""
    found = python_ast.names_bound(loop.target)
    for item in python_ast.walk(loop):
        if (
            isinstance(item, ast.Assign)
            and isinstance(item.value, kinds)
            and not found.isdisjoint(python_ast.names_in(item.value))
        ):
            found |= {target.id for target in item.targets if isinstance(target, ast.Name)}
    return found


def _leaves(node: ast.If) -> bool:
    return any(isinstance(item, (ast.Continue, ast.Break, ast.Return)) for item in python_ast.walk(node))
