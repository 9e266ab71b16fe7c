"""Modules that train in the evaluation mode of an earlier evaluation."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, repairs
from torchlint.model import events, held_parameters, program, values
from torchlint.model.relations import mode
from torchlint.pytorch import api, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_UNSEEN = "its training behavior"
"""The effect of `train()` on a module of unknown class."""


class TrainedInEvaluation(NamedTuple):
    """`switch` starts an evaluation in `loop`, and the trained pass `forward` later runs in that mode."""

    switch: events.ModeSwitch
    forward: mode.Pass
    loop: events.Loop
    name: str
    lost: str
    """The effect of a module's layer that exists only in training."""
    others: tuple[TrainedInEvaluation, ...] = ()
    """Other modules that the same call to `eval()` leaves in its mode, in other loops."""


class Swapped(NamedTuple):
    """`switch` starts evaluation mode for the trained pass `forward`, and `back` training mode for an evaluation."""

    switch: events.ModeSwitch
    forward: mode.Pass
    back: events.ModeSwitch
    evaluated: mode.Pass
    name: str


class TrainingInEvalMode(Rule):
    """A model is still in evaluation mode when it trains.

    ## What it does
    Finds `model.eval()` in a loop that also trains the model, if nothing calls `model.train()` before the next training
    step. Typical cases are an evaluation in the middle of an epoch, and a single `train()` before all epochs. torchlint
    follows calls of functions in the same file.

    Reported only if torchlint knows that the model depends on the mode: it has dropout, batch normalization or `if
    self.training:`. If torchlint cannot see the layers, it reports only if the code also calls `train()` on the model
    before the loop.

    Also finds loops in which `eval()` and `train()` are swapped: the model is trained after `eval()`, and evaluated
    after `train()`.

    Not reported if no evaluation follows the `eval()`, because the mode may then be deliberate.

    ## Why is this bad?
    Only the steps before the first evaluation train correctly. After it, dropout drops nothing, so the model overfits.
    Batch normalization no longer updates its running statistics, although the weights still change. There is no error,
    only a worse model.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(epochs, loader, held_out):
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(), torch.nn.Linear(32, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                print(sum(F.cross_entropy(model(x), y).item() for x, y in held_out))
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(epochs, loader, held_out):
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
                print(sum(F.cross_entropy(model(x), y).item() for x, y in held_out))
    ```

    ## Fix safety
    The fix calls `train()` at the start of the loop body. If an evaluation may come between the start and the training,
    the fix puts the call right before the training. There is no fix if training would still run in evaluation mode on
    some path, or evaluation in training mode. The fix is unsafe because it changes training.

    ## What verify shows
    `torchlint verify` checks the mode whenever the module trains after the line. It confirms the finding if a layer
    that depends on the mode was trained in training mode first, and the same optimizer then trains it in evaluation
    mode. It refutes the finding if no such layer is ever in evaluation mode, or if the model has no such layer.

    ## References
    - [torch.nn.Module.train](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train)
    """

    code = "TL110"
    category = Category.CORRECTNESS
    triggers = (triggers.EVAL, triggers.BACKWARD)
    calls = frozenset({"eval"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[TrainedInEvaluation | Swapped]:
        """One finding for each call to `eval()` and lost effect."""
        if self.model.is_test or self._hands_switches_on():
            return
        found: dict[tuple[python_ast.Site, str], list[TrainedInEvaluation]] = defaultdict(list)
        swapped: dict[python_ast.Site, Swapped] = {}
        for trace in self.model.program.traces:
            evaluations = [switch for switch in trace.of(events.ModeSwitch) if switch.training is False]
            if any(events.repeating(switch.loops) for switch in evaluations):
                for answer in self._in(trace):
                    if isinstance(answer, Swapped):
                        swapped.setdefault(answer.switch.site, answer)
                    else:
                        found[answer.switch.site, answer.lost].append(answer)
        yield from swapped.values()
        for first, *others in found.values():
            if first.switch.site not in swapped:
                yield first._replace(others=tuple(others))

    def _in(self, trace: program.Trace) -> Iterator[TrainedInEvaluation | Swapped]:
        passes = self.model.mode.by_module(trace)
        is_trained = partial(self.model.mode.is_trained, trace)
        for module, own in itertools.islice(passes.items(), mode.MAX_MODULES):
            lost = self.model.training_layers.lost(module) or self._switched_layers(trace, module)
            trained = [forward for forward in own if lost is not None and is_trained(forward)]
            trained = [forward for forward in trained if not self._stands_still(trace, module, forward)]
            if lost is not None and trained:
                untrained = [item for item in self._passes_within(passes, module) if not is_trained(item)]
                yield from self._swapped(trace, module, trained, untrained)
                yield from self._of_module(trace, module, trained, untrained, lost)

    def _switched_layers(self, trace: program.Trace, module: values.Value) -> str | None:
        """The effect that the author expects of `train()` for an unknown module, if it is called before."""
        switches = (item for item in trace.of(events.ModeSwitch) if item.training)
        is_switched = any(self.model.mode.covers(item, module) for item in switches)
        return _UNSEEN if is_switched and self.model.training_layers.is_unseen(module) else None

    def _stands_still(self, trace: program.Trace, module: values.Value, forward: mode.Pass) -> bool:
        """Whether a module may be frozen, or the optimizers that step after a forward pass hold other modules.

        They may, if it is not known that they hold this one, but it is that another optimizer does.
        """
        if self.model.frozen.may_be(module):
            return True
        loop = next(reversed(events.repeating(forward.loops)), None)
        near = {values.resolved(item.optimizer) for item in trace.of(events.Step) if loop in item.loops}
        holds = {item: self._holds(item, module) for item in self.model.ownership.optimizers(trace)}
        answers = [answer for item, answer in holds.items() if item in near or not near]
        if not answers or values.Answer.YES in answers:
            return False
        return values.Answer.UNKNOWN not in answers or values.Answer.YES in holds.values()

    def _holds(self, optimizer: values.Value, module: values.Value) -> values.Answer:
        """Whether an optimizer holds a module; one of an unknown class holds the parameters that it receives."""
        answer = self.model.ownership.holds(optimizer, module)
        if answer is not values.Answer.UNKNOWN or not isinstance(optimizer, (values.CallResult, values.UnknownObject)):
            return answer
        given = [item for item in map(values.resolved, optimizer.parents) if isinstance(item, values.Parameters)]
        held, is_known = held_parameters.sources_of(given)
        is_another = bool(given) and is_known and not self.model.ownership.overlap(held, {module})
        return values.Answer.NO if is_another else answer

    def _hands_switches_on(self) -> bool:
        """Whether other code may switch the mode.

        The program passes on a method, `stack.callback(model.train)`, or sets modes itself: `module.training =
        was[module]`.
        """
        tree, nodes = self.model.tree, self.model.program.nodes
        stored = (node for node in nodes(ast.Attribute) if isinstance(node.ctx, ast.Store))
        if any(node.attr == "training" for node in stored):
            return True
        methods = [node for node in nodes(ast.Attribute) if node.attr == "train"]
        called = {call.func for call in nodes(ast.Call)}
        return any(
            isinstance(node.ctx, ast.Load) and node not in called and not tree.stands_alone(node)
            for node in methods
            if not isinstance(tree.parent(node), (ast.Attribute, ast.Subscript))
        )

    def _passes_within(self, passes: dict[values.Value, list[mode.Pass]], module: values.Value) -> Iterator[mode.Pass]:
        """The forward passes of a module and of its parts, which methods such as `generate` run."""
        info = module.info if isinstance(module, values.Module) else None
        parts = self.model.program.attributes_of(info).values() if info is not None else ()
        for other in (module, *parts):
            yield from passes.get(other, ())

    def _swapped(
        self, trace: program.Trace, module: values.Value, trained: list[mode.Pass], untrained: list[mode.Pass]
    ) -> Iterator[Swapped]:
        """Training passes in evaluation mode, where an iteration evaluates without gradients in training mode."""
        for forward in trained:
            switch = self.model.mode.switch(trace, forward, module, training=False)
            loop = _common_loop(switch, forward) if switch is not None else None
            for other in untrained if loop is not None and loop not in module.loops else ():
                is_measured = api.GradMode.OFF in (other.mode, other.value.mode)
                back = self.model.mode.switch(trace, other, module, training=True) if is_measured else None
                if switch is not None and back is not None and loop in back.loops:
                    yield Swapped(switch, forward, back, other, self._name(switch))
                    return

    def _of_module(
        self,
        trace: program.Trace,
        module: values.Value,
        trained: list[mode.Pass],
        untrained: list[mode.Pass],
        lost: str,
    ) -> Iterator[TrainedInEvaluation]:
        for forward in trained:
            for setting in self.model.mode.at(trace, forward, module):
                switch = setting.switch
                if switch is None or not setting.is_evaluating or setting.since is not None:
                    continue
                loop = _common_loop(switch, forward)
                if module.loops != forward.loops[: len(module.loops)]:
                    continue  # one of several similar modules that take turns
                if loop is None or loop in module.loops:
                    continue
                is_chosen = not any(_is_in_arm(other, switch) for other in untrained)
                if self._trains_again(trace, loop, module, (switch, forward), is_chosen):
                    continue
                if self._is_last(switch, loop):
                    continue
                if any(self._follows(trace, other, switch, module) for other in untrained):
                    yield TrainedInEvaluation(switch, forward, loop, self._name(switch), lost)

    def _trains_again(
        self,
        trace: program.Trace,
        loop: events.Loop,
        module: values.Value,
        ends: tuple[events.ModeSwitch, mode.Pass],
        is_chosen: bool,
    ) -> bool:
        """Whether the loop switches the module back, possibly under a condition.

        The evaluation and the training pass of one iteration are `ends`. A switch before both counts only if a
        condition chooses the mode of the training: `if tuned: net.train()`, `else: net.eval()`.
        """
        evaluation, forward = ends
        between = range(evaluation.order, forward.order)
        switches = [
            item
            for item in trace.of(events.ModeSwitch)
            if loop in item.loops
            and item.training is not False
            and (
                not between
                or item.order > between.start
                or (is_chosen and events.exclusive(item.path, evaluation.path))
            )
        ]
        is_part = self.model.parts.part_of_any([module])
        covers = self.model.mode.covers
        return any(
            covers(switch, module) or is_part(values.resolved(switch.module)) or _is_one_of_many(switch.module)
            for switch in switches
        )

    def _is_last(self, switch: events.ModeSwitch, loop: events.Loop) -> bool:
        """Whether a condition enables a switch only in the last iteration, or ends the loop."""
        node = self.model.tree.node(loop.site)
        asked = python_ast.names_read(node.test) if isinstance(node, ast.While) else set()
        counted = python_ast.names_bound(node.target) if isinstance(node, (ast.For, ast.AsyncFor)) else set()
        for branch, _ in switch.path[len(loop.path) :]:
            condition = self.model.tree.node(branch.site) if isinstance(branch, events.Branch) else None
            if not isinstance(condition, ast.If):
                continue
            is_one = isinstance(condition.test, ast.Compare) and isinstance(condition.test.ops[0], ast.Eq)
            parts = (item for item in python_ast.walk(condition.test) if isinstance(item, ast.BinOp))
            counts = not any(isinstance(item.op, ast.Mod) for item in parts)
            if is_one and counts and not (counted | asked).isdisjoint(python_ast.names_read(condition.test)):
                return True
            if not asked.isdisjoint(self.model.definitions.names_assigned(condition.body)):
                return True
        return False

    def _follows(
        self, trace: program.Trace, forward: mode.Pass, switch: events.ModeSwitch, module: values.Value
    ) -> bool:
        """Whether a forward pass belongs to a switch: it runs in that mode."""
        settings = self.model.mode.at(trace, forward, module)
        return forward.order > switch.order and any(item.switch is switch for item in settings)

    def _name(self, switch: events.ModeSwitch) -> str:
        call = self.model.tree.node(switch.site)
        method = call.func if isinstance(call, ast.Call) else None
        name = python_ast.dotted(method.value) if isinstance(method, ast.Attribute) else ""
        return "" if name == "self" else name

    # -- report ---------------------------------------------------------------------------------------

    def report_Swapped(self, found: Swapped) -> None:
        name = f"`{found.name}`" if found.name else "the model"
        self.report(
            found.switch.site,
            f"`eval()` and `train()` are swapped: {name} is trained in evaluation mode",
            related=[
                (found.forward.site, "training uses this forward pass"),
                (found.back.site, "training mode begins here"),
                (found.evaluated.site, "this evaluation runs in training mode"),
            ],
            help="call `train()` before the training, and `eval()` before the evaluation",
        )

    def report_TrainedInEvaluation(self, trained: TrainedInEvaluation) -> None:
        name = f"`{trained.name}`" if trained.name else "the model"
        self.report(
            trained.switch.site,
            f"{name} stays in evaluation mode and is trained without {trained.lost}",
            related=[(trained.forward.site, "training uses this forward pass"), (trained.loop.site, "in this loop")],
            help="call `train()` before training resumes",
            fix=repairs.return_to_training(self.model, self.nodes, (trained, *trained.others)),
        )


def _is_in_arm(forward: mode.Pass, switch: events.ModeSwitch) -> bool:
    """Whether a forward pass follows a switch in the same arm of a condition, or in the same block."""
    return forward.order > switch.order and forward.path[: len(switch.path)] == switch.path


def _is_one_of_many(module: values.Value) -> bool:
    """Whether a loop iterates over unknown modules: `for part in self.trained: part.train()`."""
    module = values.resolved(module)
    return isinstance(module, (values.Iteration, values.Element))


def _common_loop(switch: events.ModeSwitch, forward: mode.Pass) -> events.Loop | None:
    """The innermost loop that repeats both."""
    common = [loop for loop in events.repeating(switch.loops) if loop in forward.loops]
    return common[-1] if common else None
