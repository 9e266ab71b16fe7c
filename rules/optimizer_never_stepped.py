"""Optimizers that a training loop clears but never steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions, events, program, values
from torchlint.model.queries import callees, uses
from torchlint.pytorch import api, triggers
from torchlint.syntax import commented_code, python_ast

_QUIET = frozenset("zero_grad state_dict load_state_dict param_groups defaults state __class__".split())
"""Parts of an optimizer whose use steps nothing."""
_BASES = ("object", "torch.nn.Module", "torch.nn.modules.module.Module")
"""Bases that step no optimizer."""


class Unstepped(NamedTuple):
    """The gradients of `backward` reach the parameters of `name`, which is cleared at `clear` and never stepped."""

    clear: python_ast.Site
    name: str
    backward: events.Backward
    made: python_ast.Site | None
    other: events.Step | None


class OptimizerNeverStepped(Rule):
    """A training loop clears the gradients of an optimizer, but nothing steps it.

    ## What it does
    Finds loops that call `optimizer.zero_grad()` and `backward`, where no code steps this optimizer: `step` is never
    called, or only on another optimizer.

    Not reported where other code may step it: the optimizer is passed to a function or returned, or it is an attribute
    of an object that other files use. Also not reported where code reads the gradients, or where the step is commented
    out.

    ## Why is this bad?
    The parameters keep their initial values. The loop computes gradients and discards them. Nothing raises, and the
    loss only varies with the batches. If the code steps another optimizer instead, only the network of that optimizer
    learns.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.optim.Optimizer.step](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.step.html)
    """

    code = "TL143"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"zero_grad",), (b"optim",))

    def ask(self) -> Iterator[Unstepped]:
        own = self.model.program
        if self.model.is_test or own.is_benchmark:
            return
        done: set[python_ast.Site | None] = set()
        for trace in own.traces:
            for clear in trace.of(events.Clear) if not trace.of(events.Yield) else ():
                found = self._unstepped(trace, clear)
                if found is not None and found.made not in done:
                    done.add(found.made)
                    yield found

    def _unstepped(self, trace: program.Trace, clear: events.Clear) -> Unstepped | None:
        optimizer = values.resolved(clear.target) if clear.target is not None else None
        call = self.model.tree.own_node(clear.site)
        if not isinstance(optimizer, values.Optimizer) or optimizer.info is not None or not isinstance(call, ast.Call):
            return None
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        loop = next((item for item in reversed(clear.loops) if isinstance(item, events.Loop)), None)
        is_repeated = loop is not None or isinstance(receiver, ast.Attribute)
        is_ours = clear.explicit and is_repeated and isinstance(receiver, (ast.Name, ast.Attribute))
        backwards = trace.of(events.Backward) if is_ours else []
        passes = [item for item in backwards if (loop in item.loops if loop is not None else not item.loops)]
        backward = next((item for item in passes if self.model.ownership.surely_reaches(item, optimizer)), None)
        if (
            backward is None
            or not isinstance(receiver, (ast.Name, ast.Attribute))
            or self._may_step(optimizer)
            or not self._is_left_alone(receiver)
        ):
            return None
        other = next(iter(trace.of(events.Step)), None)
        return Unstepped(clear.site, python_ast.dotted(receiver), backward, optimizer.site, other)

    def _may_step(self, optimizer: values.Optimizer) -> bool:
        """Whether a step, a use of gradients or an unknown call may update the parameters of an optimizer."""
        for trace in self.model.program.traces:
            if trace.of(events.GradRead):
                return True
            for step in trace.of(events.Step):
                stepped = values.resolved(step.optimizer)
                is_other = isinstance(stepped, values.Optimizer) and stepped.site != optimizer.site
                if not is_other or step.manual:
                    return True
                if self.model.ownership.clears(optimizer, stepped) is values.Answer.YES:
                    return True  # it steps the same parameters
            if any(self.model.ownership.is_handed(call, optimizer) for call in trace.of(events.MayClear)):
                return True
        return False

    def _is_left_alone(self, name: ast.Name | ast.Attribute) -> bool:
        """Whether no use of a variable or attribute steps its optimizer or passes it on."""
        tree, last = self.model.tree, python_ast.last_name(name)
        calls = commented_code.calls_in_comments(tree.source.text, last)
        if any(python_ast.dotted(call.func).endswith(f"{last}.step") for call in calls):
            return False
        if isinstance(name, ast.Attribute) and not self._is_closed(name):
            return False
        found = uses.of_place(name, self.model)
        return found is not None and all(map(self._is_quiet, found))

    def _is_closed(self, name: ast.Attribute) -> bool:
        """Whether the bases of the class around an attribute are known not to step it."""
        method = self.model.definitions.method_around(name)
        owner = method.owner if method is not None else None
        bases = [item for item in owner.ancestors() if not isinstance(item, definitions.ClassInfo)] if owner else []
        return owner is not None and all(item in _BASES for item in bases)

    def _is_quiet(self, node: ast.Name | ast.Attribute) -> bool:
        if isinstance(node.ctx, ast.Store):
            return True
        parent = self.model.tree.parent(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _QUIET
        is_given = isinstance(parent, ast.Call) and parent.func is not node
        if is_given and isinstance(parent, ast.Call) and api.makes_scheduler(self.model.definitions.named(parent.func)):
            return True
        return callees.ignores(node, self.model.definitions)

    def report_Unstepped(self, found: Unstepped) -> None:
        related = [(found.backward.site, "`backward` computes its gradients here")]
        if found.other is not None:
            related.append((found.other.site, f"this step updates the parameters of `{found.other.name}` only"))
        self.report(
            found.clear,
            f"`{found.name}` is never stepped: its parameters keep their initial values",
            related=related,
            help=f"call `{found.name}.step()` after `backward`",
        )
