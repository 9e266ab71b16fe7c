"""Evaluations that run a model in training mode."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from torchlint import Category, Confidence, Rule
from torchlint.model import definitions, events, program, values
from torchlint.model.relations import mode
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex


_Passes: TypeAlias = "dict[values.Value, list[mode.Pass]]"


class EvaluatedInTraining(NamedTuple):
    """The call at `site` evaluates a module in training mode, since `switch` or since its creation at `made`."""

    forward: mode.Pass
    site: python_ast.Site
    name: str
    switch: events.ModeSwitch | None
    undone: events.ModeSwitch | None
    """The call to `eval()` that `switch` undoes."""
    made: python_ast.Site | None
    kept: str | None
    """The effect of a module's layer that exists only in training; None: its layers are unknown."""


class EvaluationInTrainingMode(Rule):
    """A model is evaluated in training mode, with dropout or batch statistics.

    ## What it does
    Finds loops over validation or test data that run a trained model without `model.eval()`. torchlint recognizes such
    loops by the names of the data or the function, and follows function calls.

    Reported only if torchlint knows that the model depends on the mode: it has dropout, batch normalization or `if
    self.training:`. Always reported: an `eval()` that a `train()` cancels before the model runs.

    Two kinds of findings need `--preview`: evaluations with gradients on, and evaluations after `train()` of a model
    whose layers torchlint does not know.

    ## Why is this bad?
    Dropout still drops elements, so the result is noisy and worse than without dropout. Batch normalization uses the
    statistics of each validation batch. It also updates its running statistics with them, even under `no_grad`.

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

    ## What verify shows
    `torchlint verify` confirms the finding if three calls at the line ran the model in training mode. It refutes the
    finding if three calls at the line ran it in evaluation mode.

    ## Known limits
    If an evaluation calls `train()` itself and no `eval()` comes before, torchlint does not report it, because the mode
    may be deliberate.

    ## References
    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html): "`eval()` is
      completely orthogonal to no-grad mode and inference mode"
    """

    code = "TL117"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[EvaluatedInTraining]:
        for trace in [] if self.model.is_test else self.model.program.traces:
            is_concerned = bool(trace.of_kinds(events.Backward, events.ModeSwitch))
            passes = self.model.mode.by_module(trace) if is_concerned else {}
            found = [
                item
                for module, own in itertools.islice(passes.items(), mode.MAX_MODULES)
                for item in self._of_module(trace, module, own, passes)
            ]
            yield from {item.site: item for item in reversed(found)}.values()

    def _of_wholes(self, module: values.Value, own: list[mode.Pass], passes: _Passes) -> Iterator[mode.Pass]:
        """The passes of the modules that contain a module, if code calls a method in which it runs: `predict`."""
        if any(self._called(item) not in (None, item.site) for item in own):
            for whole, others in passes.items():
                if whole is not module and self.model.parts.part_of_any([whole])(module):
                    yield from others

    def _of_module(
        self, trace: program.Trace, module: values.Value, own: list[mode.Pass], passes: _Passes
    ) -> Iterator[EvaluatedInTraining]:
        """The first pass of each loop; `own` are those of the module among all `passes`."""
        evaluated = [item for item in own if self._evaluates(item) and not self._trains_too(trace, item)]
        layers = self.model.training_layers
        is_own = not any(map(_is_pretrained, values.inputs_of(module)))
        kept = layers.lost(module) if evaluated and not _is_sampled(module) else None
        if not evaluated or (kept is None and _is_sampled(module)):
            return
        is_unseen = layers.is_unseen(module)
        if kept is None and not is_unseen and not layers.has_unseen_part(module):
            return
        candidates = (*own, *self._of_wholes(module, own, passes))
        trained = [forward for forward in candidates if self.model.mode.is_trained(trace, forward)]
        is_learning = bool(trained) and self._is_stepped_on(trace, module)
        is_made_here = self.model.mode.starts_in_training(trace, module) and kept != api.PRETRAINED_DROPOUT
        done: set[events.Loop | None] = set()
        for forward in evaluated:
            loop, settings = _loop_of(forward), self.model.mode.at(trace, forward, module)
            before = [item for item in trained if is_learning and item.order < forward.order]
            switches = [item.switch for item in settings if item.switch is not None]
            undone = [
                eval_ for item in settings if (eval_ := item.undone or _undone_by_callee(item, forward)) is not None
            ]
            is_known = all(item.since is None for item in settings) and (len(switches) == len(settings) or is_made_here)
            is_left = (
                bool(before)
                and self._is_repeated_for_data(forward)
                and all(switch.training and self._is_for(trace, switch, before, module) for switch in switches)
            )
            is_asked = self._is_repeated_for_data(forward) or self._is_without_gradients(forward)
            is_undone = bool(undone) and len(undone) == len(settings) and is_asked
            if (
                settings
                and is_known
                and ((is_left and (kept is not None or (is_unseen and switches and is_own))) or is_undone)
                and loop not in done
            ):
                done.add(loop)
                made = module.site if not switches else None
                since, eval_ = next(iter(switches), None), next(iter(undone), None)
                site = self._called(forward) or forward.site
                yield EvaluatedInTraining(forward, site, self._name(site), since, eval_, made, kept)

    def _is_for(
        self, trace: program.Trace, switch: events.ModeSwitch, trained: list[mode.Pass], module: values.Value
    ) -> bool:
        """Whether a switch serves training passes: later ones, or earlier ones that the same statement switches."""
        if any(switch.order < forward.order for forward in trained):
            return True
        settings = (item for forward in trained for item in self.model.mode.at(trace, forward, module))
        return any(item.switch is not None and item.switch.site == switch.site for item in settings)

    # -- evaluations ----------------------------------------------------------------------------------

    def _is_stepped_on(self, trace: program.Trace, module: values.Value) -> bool:
        """Whether an optimizer may hold a module; one that only measures, such as a perceptual loss, may stay."""
        for step in trace.of(events.Step):
            held, is_known = self.model.ownership.held_by(values.resolved(step.optimizer))
            if not is_known or self.model.ownership.overlap(held, {module}):
                return True
        return False

    def _evaluates(self, forward: mode.Pass) -> bool:
        """Whether a pass may be an evaluation: its result is used, and no name suggests randomness."""
        if self._is_for_nothing(forward) or self._called(forward) is None:
            return False
        names = list(self._functions_around(forward))
        return not any(naming.STOCHASTIC.search(name) or naming.INFERENCE.search(name) for name in names)

    def _is_repeated_for_data(self, forward: mode.Pass) -> bool:
        """Whether a pass is repeated for an evaluation, by the names of functions or data."""
        loop = _loop_of(forward)
        if loop is None:
            return False
        if self._is_apart(forward, loop):
            names = [*self._functions_inside(forward, loop), *_names_of_data(self.model.tree.node(loop.site))]
            return any(map(naming.EVALUATING.search, names)) or self._is_called_for_data(forward, loop.depth)
        names = [*self._functions_around(forward), *_names_of_data(self.model.tree.node(loop.site))]
        is_named = any(map(naming.EVALUATING.search, names))
        return is_named or (self._is_without_gradients(forward) and self._is_called_for_data(forward, loop.depth - 1))

    def _is_apart(self, forward: mode.Pass, loop: events.Loop) -> bool:
        """Whether a function that the loop calls runs a pass without gradients."""
        return self._is_without_gradients(forward) and len(forward.calls) > loop.depth

    def _is_called_for_data(self, forward: mode.Pass, depth: int) -> bool:
        """Whether the call at a depth chooses data of an evaluation: `self.accuracy("val")`."""
        call = self.model.tree.node(forward.calls[depth]) if 0 <= depth < len(forward.calls) else None
        given = python_ast.arguments(call) if isinstance(call, ast.Call) else []
        names = [name for item in given for name in _names_in(item)]
        return any(map(naming.EVALUATING.search, names)) and not any("train" in name.lower() for name in names)

    def _is_without_gradients(self, forward: mode.Pass) -> bool:
        return api.GradMode.OFF in (forward.mode, forward.value.mode)

    def _trains_too(self, trace: program.Trace, forward: mode.Pass) -> bool:
        """Whether a backward runs through a pass, or in its loop, which then inspects its own training."""
        loop, tracking = _loop_of(forward), self.model.tracking
        passed = trace.of(events.Backward)
        is_learned = not self._is_without_gradients(forward) and any(
            forward.value in tracking.pass_through(backward.loss) for backward in passed
        )
        called = loop.depth + 1 if loop is not None and self._is_apart(forward, loop) else 0
        return is_learned or any(
            loop in backward.loops and backward.calls[:called] == forward.calls[:called] for backward in passed
        )

    def _functions_around(self, forward: mode.Pass) -> Iterator[str]:
        """The names of the functions around a pass and its loop."""
        loop = _loop_of(forward)
        yield from self._functions_of(
            (forward.site,) if loop is None else (loop.site, forward.site, *forward.calls[loop.depth :])
        )

    def _functions_inside(self, forward: mode.Pass, loop: events.Loop) -> Iterator[str]:
        """The names of the functions around a pass that its loop calls."""
        yield from self._functions_of((forward.site, *forward.calls[loop.depth + 1 :]))

    def _functions_of(self, sites: Iterable[python_ast.Site]) -> Iterator[str]:
        for site in sites:
            for item in self.model.tree.ancestors(self.model.tree.node(site)):
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield item.name
                    break

    def _called(self, forward: mode.Pass) -> python_ast.Site | None:
        """The call of a module from code outside of modules: `model(x)` or `model.predict(x)`.

        None if the module is a part of another one that is called as a whole: code switches the whole.
        """
        method = self._method_of_module(forward.site)
        if method is None:
            return forward.site
        for call in reversed(forward.calls):
            around = self._method_of_module(call)
            if around is None:
                return call if method.name not in ("forward", "__call__", "__init__") else None
            method = around
        return None

    def _method_of_module(self, site: python_ast.Site) -> definitions.FunctionInfo | None:
        """The method of a module class around a site."""
        node = self.model.tree.node(site)
        method = self.model.program.definitions_of(node).method_around(node)
        if method is None or method.owner is None or not self.model.program.is_module_class(method.owner):
            return None
        return method

    def _is_for_nothing(self, forward: mode.Pass) -> bool:
        """Whether a pass's result is unused: the pass only updates batch statistics."""
        return self.model.tree.stands_alone(self.model.tree.node(forward.site))

    def _name(self, site: python_ast.Site) -> str:
        node = self.model.tree.node(site)
        return python_ast.dotted(node.func) if isinstance(node, ast.Call) else ""

    # -- report ---------------------------------------------------------------------------------------

    def report_EvaluatedInTraining(self, found: EvaluatedInTraining) -> None:
        name = f"`{found.name}`" if found.name else "the model"
        is_sure = found.kept is not None and self._is_without_gradients(found.forward)
        related, effect = [], f", with {found.kept}" if found.kept else "; torchlint does not know its layers"
        if found.switch is not None:
            related = [(found.switch.site, "training mode begins here, and nothing ends it")]
            if found.undone is not None:
                related.append((found.undone.site, "a later `train()` undoes this `eval()` before the model runs"))
        elif found.made is not None:
            related = [(found.made, "it is created here, in training mode")]
        self.report(
            found.site,
            f"{name} is evaluated in training mode"
            + (effect if found.kept or not found.undone else ", because a later `train()` undoes `eval()`"),
            related=related,
            help="call `eval()` before the evaluation, and `train()` before training resumes",
            confidence=Confidence.HIGH if is_sure or found.undone is not None else Confidence.LOW,
        )


def _is_pretrained(module: values.Value) -> bool:
    """Whether a module comes from a library: most large language models have no dropout."""
    callee = module.callee if isinstance(module, values.Unknown) else None
    return callee is not None and callee.label == "from_pretrained"


def _is_sampled(module: values.Value) -> bool:
    """Whether a module generates, by its name: its output in training mode may be intended."""
    return naming.GENERATOR.search(module.label) is not None


def _loop_of(forward: mode.Pass) -> events.Loop | None:
    """The innermost loop of the program that repeats a pass."""
    return next(reversed(events.repeating(forward.loops)), None)


def _undone_by_callee(setting: mode.Setting, forward: mode.Pass) -> events.ModeSwitch | None:
    """The `eval()` in the function of a pass that a callee undoes before the pass."""
    is_here = setting.outer is not None and setting.outer.calls == forward.calls and bool(forward.calls)
    return setting.outer if is_here and not setting.is_evaluating else None


def _names_of_data(loop: ast.AST) -> Iterator[str]:
    """The names in the iterable of a loop."""
    data = [item.iter for item in getattr(loop, "generators", [loop]) if hasattr(item, "iter")]
    for item in data:
        yield from _names_in(item)


def _names_in(expression: ast.AST) -> Iterator[str]:
    for node in python_ast.walk(expression):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
