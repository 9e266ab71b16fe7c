"""Evaluations that run a model in training mode."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, program, values
from torchlint.model.queries import module_modes
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class EvaluatedInTraining(NamedTuple):
    """`forward` evaluates a module that is in training mode: since `switch`, or since it was made at `made`."""

    forward: module_modes.Pass
    name: str
    switch: events.ModeSwitch | None
    made: python_ast.Site | None
    kept: str
    """What a layer of the module does in training only."""


class EvaluationInTrainingMode(Rule):
    """A model is evaluated in training mode: with dropout, or batch statistics.

    ## What it does
    Finds loops over validation or test data, by the names of the data or of the function, that run a model and train
    nothing, where the model has been trained before and nothing has called `model.eval()` since. Calls of functions
    are followed. It speaks of models that surely hold what the mode changes (dropout, batch normalization,
    `if self.training:`), and stays silent where the evaluation itself asks for training mode.

    ## Why is this bad?
    Dropout goes on dropping, so that the result is noisy and worse than the model is. Batch normalization uses the
    statistics of each batch of validation data, and even learns from them: `no_grad` does not stop running averages.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(epochs, loader, val_loader):
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(), torch.nn.Linear(32, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                print(sum(F.cross_entropy(model(x), y).item() for x, y in val_loader))
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(epochs, loader, val_loader):
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(), torch.nn.Linear(32, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                print(sum(F.cross_entropy(model(x), y).item() for x, y in val_loader))
    ```

    ## References
    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html): "`eval()` is
      completely orthogonal to no-grad mode and inference mode"
    """

    code = "TL117"
    category = Category.CORRECTNESS
    preview = True
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[EvaluatedInTraining]:
        for trace in [] if self.model.is_test else self.model.program.traces:
            if trace.of(events.Backward):
                yield from self._in(trace)

    def _in(self, trace: program.Trace) -> Iterator[EvaluatedInTraining]:
        passes = self.model.module_modes.by_module(trace)
        for module, own in itertools.islice(passes.items(), module_modes.MAX_MODULES):
            evaluated = [item for item in own if self._evaluates(item) and not self._trains_too(trace, item)]
            trained = [forward for forward in own if evaluated and self.model.module_modes.is_trained(trace, forward)]
            is_learning = trained and not _is_sampled(module) and self._is_stepped_on(trace, module)
            kept = self.model.training_layers.lost(module) if is_learning else None
            if kept is not None:
                yield from self._of_module(trace, module, trained, evaluated, kept)

    def _of_module(
        self,
        trace: program.Trace,
        module: values.Value,
        trained: list[module_modes.Pass],
        evaluated: list[module_modes.Pass],
        kept: str,
    ) -> Iterator[EvaluatedInTraining]:
        """The first pass of each loop."""
        known = self.model.module_modes.known_at(trace, module)
        is_made_here = trace.root is None or module.order > trace.start > 0
        done: set[events.Loop] = set()
        for forward in evaluated:
            loop, states = events.repeating(forward.loops)[-1], known[forward]
            before = [item for item in trained if item.order < forward.order]
            switches = [state for state in states if isinstance(state, events.ModeSwitch)]
            is_known = len(switches) == len(states) or (is_made_here and "unknown" not in states)
            is_training = all(switch.training and _is_for(switch, before) for switch in switches)
            if states and before and is_known and is_training and loop not in done:
                done.add(loop)
                made = module.site if not switches else None
                yield EvaluatedInTraining(forward, self._name(forward), next(iter(switches), None), made, kept)

    # -- evaluations ----------------------------------------------------------------------------------

    def _is_stepped_on(self, trace: program.Trace, module: values.Value) -> bool:
        """Whether an optimizer may hold a module: one that only measures, as a perceptual loss does, stays as it is."""
        for step in trace.of(events.Step):
            held, is_known = self.model.ownership.held_by(values.resolved(step.optimizer))
            if not is_known or self.model.ownership.overlap(held, {module}):
                return True
        return False

    def _evaluates(self, forward: module_modes.Pass) -> bool:
        """Whether a pass is repeated for an evaluation, by the names of functions or of data."""
        loops = events.repeating(forward.loops)
        if not loops or self._is_for_nothing(forward) or self._is_of_a_part(forward):
            return False
        loop = self.model.tree.node(loops[-1].site)
        names = list(self._functions_around(forward, loops[-1]))
        if any(map(naming.STOCHASTIC.search, names)) or any(map(naming.INFERENCE.search, names)):
            return False
        return any(map(naming.EVALUATING.search, [*names, *_names_of_data(loop)]))

    def _trains_too(self, trace: program.Trace, forward: module_modes.Pass) -> bool:
        """Whether something goes backward through a pass, or in its loop, which looks at what it trains."""
        loop, tracking = events.repeating(forward.loops)[-1], self.model.tracking
        passed = trace.of(events.Backward)
        is_learned = api.GradMode.OFF not in (forward.mode, forward.value.mode) and any(
            forward.value in tracking.pass_through(backward.loss) for backward in passed
        )
        return is_learned or any(loop in backward.loops for backward in passed)

    def _functions_around(self, forward: module_modes.Pass, loop: events.Loop) -> Iterator[str]:
        """The names of the functions that a pass and its loop stand in."""
        for site in (loop.site, forward.site, *forward.calls[loop.depth :]):
            for item in self.model.tree.ancestors(self.model.tree.node(site)):
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield item.name
                    break

    def _is_of_a_part(self, forward: module_modes.Pass) -> bool:
        """Whether a module runs a part of itself: the whole is what is switched."""
        node = self.model.tree.node(forward.site)
        method = self.model.program.definitions_of(node).method_around(node)
        return method is not None and method.owner is not None and self.model.program.is_module_class(method.owner)

    def _is_for_nothing(self, forward: module_modes.Pass) -> bool:
        """Whether nobody uses what a pass gives: it is run for the statistics of its batches."""
        return self.model.tree.stands_alone(self.model.tree.node(forward.site))

    def _name(self, forward: module_modes.Pass) -> str:
        node = self.model.tree.node(forward.site)
        return python_ast.dotted(node.func) if isinstance(node, ast.Call) else ""

    # -- report ---------------------------------------------------------------------------------------

    def report_EvaluatedInTraining(self, found: EvaluatedInTraining) -> None:
        name = f"`{found.name}`" if found.name else "the model"
        related = []
        if found.switch is not None:
            related = [(found.switch.site, "training mode begins here, and nothing ends it")]
        elif found.made is not None:
            related = [(found.made, "it is made here, in training mode")]
        self.report(
            found.forward.site,
            f"{name} is evaluated in training mode: with {found.kept}",
            related=related,
            help="call `eval()` before the evaluation, and `train()` before it is trained again",
        )


def _is_sampled(module: values.Value) -> bool:
    """Whether a module generates, by its name: what it gives in training mode may be meant."""
    return naming.GENERATOR.search(module.label) is not None


def _is_for(switch: events.ModeSwitch, trained: list[module_modes.Pass]) -> bool:
    """Whether a switch is there for training passes that come after it."""
    return any(switch.order < forward.order for forward in trained)


def _names_of_data(loop: ast.AST) -> Iterator[str]:
    """The names in what a loop goes over."""
    data = [item.iter for item in getattr(loop, "generators", [loop]) if hasattr(item, "iter")]
    for node in (node for item in data for node in python_ast.walk(item)):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
