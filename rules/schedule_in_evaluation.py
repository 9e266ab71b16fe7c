"""Schedules that the validation passes advance, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast

_MODE = LazyPattern(r"(?i)train|phase|mode|split|stage|eval|valid|test|\bval\b")
_PLATEAU = "ReduceLROnPlateau"


class Advanced(NamedTuple):
    """The schedule steps at `site` in each pass, the optimizer only in those that train, under `condition`."""

    site: python_ast.Site
    name: str
    optimizer: python_ast.Site
    condition: python_ast.Site


class ScheduleInEvaluation(Rule):
    """Validation passes advance the learning-rate schedule, too.

    ## What it does
    Finds code that runs for training and for validation, and steps its optimizer under a condition such as
    `if phase == "train"`, but steps the schedule outside the condition. The code is the body of a loop over
    `["train", "val"]`, or a function that the file calls once for training and once for validation.

    ## Why is this bad?
    The schedule advances twice in each epoch. A cosine schedule reaches its end after half of the training, and
    `StepLR` reduces the learning rate twice as often.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def fit(model, loaders, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            for phase in ["train", "val"]:
                model.train(phase == "train")
                for x, y in loaders[phase]:
                    with torch.set_grad_enabled(phase == "train"):
                        loss = F.cross_entropy(model(x), y)
                    if phase == "train":
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                scheduler.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def fit(model, loaders, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            for phase in ["train", "val"]:
                model.train(phase == "train")
                for x, y in loaders[phase]:
                    with torch.set_grad_enabled(phase == "train"):
                        loss = F.cross_entropy(model(x), y)
                    if phase == "train":
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
            scheduler.step()
    ```
    """

    code = "TL148"
    category = Category.CORRECTNESS
    triggers = (triggers.SCHEDULER, triggers.BACKWARD, (b".step(",))

    def ask(self) -> Iterator[Advanced]:
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            is_step = isinstance(call.func, ast.Attribute) and call.func.attr == "step" and not call.args
            if is_step and isinstance(call.func, ast.Attribute) and self._is_schedule(call.func.value):
                found = self._advanced(call, call.func.value)
                if found is not None:
                    yield found

    def _is_schedule(self, node: ast.expr) -> bool:
        made = self.model.provenance.created(node)
        if not isinstance(made, ast.Call) or python_ast.called_name(made) == _PLATEAU:
            return False
        return api.makes_scheduler(self.model.definitions.named(made.func))

    def _advanced(self, call: ast.Call, schedule: ast.expr) -> Advanced | None:
        function = self.model.definitions.function_around(call)
        if function is None or self._mode_condition(call) is not None:
            return None
        steps = [
            (item, self._mode_condition(item))
            for item in python_ast.walk(function.node)
            if isinstance(item, ast.Call) and python_ast.called_name(item) == "step"
            if isinstance(item.func, ast.Attribute)
            if naming.looks_like_optimizer(python_ast.last_name(item.func.value))
        ]
        if len(steps) != 1 or steps[0][1] is None:
            return None
        step, condition = steps[0]
        assert condition is not None
        read = python_ast.names_in(condition.test)
        phases = [item for item in self.model.tree.around(call) if isinstance(item, ast.For) and _is_over_phases(item)]
        is_phase = any(not read.isdisjoint(python_ast.names_in(item.target)) for item in phases)
        if not is_phase and not (self._is_called_both_ways(function, read) and not self._leaves(function, call)):
            return None
        sites = python_ast.site_of(call), self.model.tree.code(schedule), python_ast.site_of(step)
        return Advanced(*sites, python_ast.site_of(condition.test))

    def _mode_condition(self, node: ast.AST) -> ast.If | None:
        """The condition on the mode around a node."""
        for item in self.model.tree.around(node):
            if isinstance(item, ast.If) and _MODE.search(self.model.tree.code(item.test)):
                return item
        return None

    def _is_called_both_ways(self, function: definitions.FunctionInfo, read: set[str]) -> bool:
        """Whether the file calls a function with True and with False, or with two texts, for a parameter."""
        flags = [name for name in function.parameters if name in read]
        if len(flags) != 1:
            return False
        place = function.parameters.index(flags[0]) - (1 if function.is_method else 0)
        given: set[object] = set()
        for call in self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) == function.name:
                named = [item.value for item in call.keywords if item.arg == flags[0]]
                value = named[0] if named else call.args[place] if place < len(call.args) else None
                default = definitions.defaults_of(function.node).get(flags[0])
                value = value if value is not None else default
                if not isinstance(value, ast.Constant):
                    return False
                given.add(value.value)
        return len(given) > 1

    def _leaves(self, function: definitions.FunctionInfo, call: ast.Call) -> bool:
        """Whether a condition on the mode leaves the function or the iteration before a call."""
        tests = (
            item for item in python_ast.walk(function.node) if isinstance(item, ast.If) and item.lineno < call.lineno
        )
        return any(
            _MODE.search(self.model.tree.code(item.test)) and isinstance(item.body[-1], python_ast.LEAVING)
            for item in tests
        )

    def report_Advanced(self, found: Advanced) -> None:
        self.report(
            found.site,
            f"`{found.name}` also steps during evaluation, so the learning rate decays too fast",
            related=[(found.optimizer, "the optimizer steps only here"), (found.condition, "under this condition")],
            help=f"call `{found.name}.step()` under the same condition",
        )


def _is_over_phases(loop: ast.For) -> bool:
    """`for phase in ["train", "val"]`."""
    texts = [getattr(item, "value", None) for item in getattr(loop.iter, "elts", [])]
    return len(texts) > 1 and all(isinstance(text, str) and _MODE.search(text) for text in texts)
