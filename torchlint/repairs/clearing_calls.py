"""The call that would clear the gradients of a step, in the names of the program."""

from __future__ import annotations

import ast

from torchlint.model import Model
from torchlint.model.definitions import FunctionInfo
from torchlint.model.events import Clear, Loop, Step
from torchlint.model.module_values import modules_of
from torchlint.model.relations.gradients.stale import StaleGradients
from torchlint.model.values import Answer, Value, resolved
from torchlint.syntax.python_ast import Site, names_read


class ClearingWords:
    """How optimizers and clearings are written."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program
        self.gradients = model.gradients.between_steps
        self.tree = model.tree

    def name(self, step: Step) -> str:
        """The name of the optimizer of a step in the program: `opts["main"]` if it is an element of a container."""
        is_element = step.expression is not None and isinstance(self.tree.node(step.expression), ast.Subscript)
        return self.optimizer(step) if is_element else step.name

    def optimizer(self, step: Step) -> str:
        """The source text of the optimizer of a step; empty if there is none."""
        if step.expression is None:
            return ""
        code = self.tree.code(step.expression)
        is_primary = isinstance(self.tree.node(step.expression), (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
        return code if is_primary else f"({code})"

    def statement(self, stale: StaleGradients) -> tuple[str | None, Value | None]:
        """The call that clears the gradients, and whose it clears: as the function does it already, or the optimizer's
        own method; None where it is not known to have one."""
        step = stale.step
        if (used := self._used_already(stale)) is not None:
            return self.tree.code(used.site), used.target
        if step.manual or step.expression is None or not self.gradients.can_clear(step):
            return None, None
        return f"{self.optimizer(step)}.zero_grad()", step.optimizer

    def _used_already(self, stale: StaleGradients) -> Clear | None:
        """A clearing by a call in the function of the step, in a loop around this one or in none, that clears the
        same gradients and can be repeated in this one."""
        function = self._function(stale.step.site)
        for event in self.gradients.clearings_of(resolved(stale.step.optimizer)):
            around = stale.backward.loops[: len(event.loops)]
            if event.explicit and event.loops == around and self._function(event.site) is function:
                if self._is_for(event, stale) and self._can_be_repeated(event.site, stale.loop):
                    return event
        return None

    def _is_for(self, clear: Clear, stale: StaleGradients) -> bool:
        """Whether a clearing is one of the gradients of the step: known to be, or of the only module that the loss
        goes through."""
        if self.model.ownership.clears(clear.target, resolved(stale.step.optimizer)) is Answer.YES:
            return True
        modules = set(modules_of(self.model.tracking.graph(stale.backward.loss)))
        return clear.target is not None and modules == {resolved(clear.target)}

    def _can_be_repeated(self, site: Site, loop: Loop | None) -> bool:
        """Whether a call is a statement of one line, and its names mean the same in a loop."""
        call = self.tree.node(site)
        changed = self.program.definitions.assigned_names(self.tree.node(loop.site)) if loop is not None else set()
        return self.tree.stands_alone(call) and changed.isdisjoint(names_read(call)) and site.line == site.end_line

    def _function(self, site: Site) -> FunctionInfo | None:
        """The innermost function with a `def` around a site."""
        function = self.program.definitions.function_around(self.tree.node(site))
        while function is not None and isinstance(function.node, ast.Lambda):
            function = self.program.definitions.function_around(function.node)
        return function
