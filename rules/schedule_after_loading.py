"""Schedules created after their optimizer's state was loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import resumes
from torchlint.model.relations import cadence
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_PACKAGE = "torch.optim.lr_scheduler."
_FOR_EVER = {"LinearLR": 4, "ConstantLR": 3}
"""Schedules that multiply the rate at construction, and compute each rate from the previous one.

Each comes with the position of its parameter `last_epoch`.
"""
_ONCE = {"LambdaLR": 2, "OneCycleLR": 12, "CyclicLR": 12, "CosineAnnealingWarmRestarts": 4}
"""Schedules that compute each rate from the count: only the first rate after a resume is wrong."""
_EPOCH = LazyPattern(r"(?i)epoch|(^|\W)ep?($|\W)")


class Late(NamedTuple):
    """The schedule `name`, created at `site`, resets the rate of `optimizer`, whose state `load` restored."""

    site: Site
    name: str
    optimizer: str
    load: Site
    resumed: Site
    is_sure: bool


class ScheduleAfterLoading(Rule):
    """A schedule created after loading its optimizer resets the learning rate.

    ## What it does
    Finds a `LambdaLR`, `LinearLR`, `ConstantLR`, `OneCycleLR`, `CyclicLR` or `CosineAnnealingWarmRestarts` created
    without `last_epoch` for an optimizer whose state is already loaded. The schedule then resumes from the checkpoint
    through `load_state_dict`, or through an assignment to its `last_epoch`. A function of the file may create the
    schedule, and a wrapper or a dictionary may keep it.

    The finding has low confidence if only the first step after a resume has the wrong rate. Other schedules do not
    change the rate at construction.

    ## Why is this bad?
    The resumed run trains with the wrong learning rate. The constructor of these schedules sets the rate to that of
    the first epoch. Loading the schedule's state restores its count, not the rate. `LinearLR` and `ConstantLR`
    multiply the current rate, so all rates after a resume are wrong. The others train one epoch with the first
    rate.

    ## Example
    ```python
    import torch

    def resume(model, path):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        checkpoint = torch.load(path)
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
        scheduler.load_state_dict(checkpoint["scheduler"])
        return optimizer, scheduler
    ```

    Use instead:
    ```python
    import torch

    def resume(model, path):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)
        checkpoint = torch.load(path)
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        return optimizer, scheduler
    ```

    ## References
    - [torch.optim: how to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "TL330"
    category = Category.CORRECTNESS
    triggers = ((b"load_state_dict",), (b"lr_scheduler", b"LR("))

    def ask(self) -> Iterator[Late]:
        for call, made, optimizer, load in self.model.provenance.states.made_after_load(_PACKAGE):
            kind = python_ast.called_name(made)
            name = self._name(call)
            place = {**_FOR_EVER, **_ONCE}.get(kind, 0)
            is_new = not any(item.arg in ("last_epoch", None) for item in made.keywords) and len(made.args) <= place
            if self.model.is_test or not name or not is_new or self._is_loaded_again(call, optimizer):
                continue
            resumed = self._resumed(call, name)
            if resumed is not None and not self._is_replayed(call, name) and not self._sets_rates(call, made):
                yield Late(
                    python_ast.site_of(call),
                    name,
                    optimizer,
                    load,
                    python_ast.site_of(resumed),
                    kind in _FOR_EVER or self._steps_by_epoch(call, made, name),
                )

    def _name(self, call: ast.Call) -> str:
        """The name that stores a schedule: itself, as the value of a dictionary, or in a wrapper."""
        around: ast.AST | None = self.model.tree.parent(call)
        if isinstance(around, ast.Call) and self.model.provenance.states.is_of_file(around):
            around = self.model.tree.parent(around)
        if isinstance(around, ast.Dict):
            around = self.model.tree.parent(around)
        is_plain = isinstance(around, ast.Assign) and len(around.targets) == 1
        return python_ast.dotted(around.targets[0]) if isinstance(around, ast.Assign) and is_plain else ""

    def _is_loaded_again(self, call: ast.Call, optimizer: str) -> bool:
        """Whether the optimizer loads a state again below, which restores its rate."""
        scope = self.model.tree.scope_around(call)
        return any(
            load.lineno > call.lineno and python_ast.dotted(owner) == optimizer
            for load, owner in self.model.provenance.states.loads
            if self.model.tree.scope_around(load) is scope
        )

    def _resumed(self, call: ast.Call, name: str) -> ast.AST | None:
        """The place where a schedule resumes from a checkpoint, after its creation."""
        for node in python_ast.walk(self.model.tree.scope_around(call)):
            is_later = getattr(node, "lineno", 0) > call.lineno
            func = node.func if isinstance(node, ast.Call) else None
            if is_later and isinstance(func, ast.Attribute) and func.attr == "load_state_dict":
                if self._is_of(func.value, name):
                    return node
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if is_later and target is not None and python_ast.dotted(target) == f"{name}.last_epoch":
                return node
        return None

    def _is_of(self, owner: ast.expr, name: str) -> bool:
        """Whether an expression is what a name stores, or an element of it, also in a loop over all of them."""
        element = owner.value if isinstance(owner, ast.Subscript) else owner
        if python_ast.dotted(element) == name:
            return True
        loops = (item for item in self.model.tree.ancestors(owner) if isinstance(item, ast.For))
        loop = next((item for item in loops if python_ast.dotted(owner) in python_ast.names_bound(item.target)), None)
        over = loop.iter if loop is not None else None
        return isinstance(over, ast.Call) and python_ast.dotted(over.func) in (f"{name}.values", f"{name}.items")

    def _sets_rates(self, call: ast.Call, made: ast.Call) -> bool:
        """Whether code around a schedule, of a function or a wrapper, sets the rates of an optimizer."""
        if call is made and isinstance(self.model.tree.parent(call), ast.Assign):
            return False
        groups = (node for node in self.model.tree.of_type(ast.Attribute) if node.attr == "param_groups")
        return not all(map(self._reads_only, groups))

    def _is_replayed(self, call: ast.Call, name: str) -> bool:
        """Whether the code sets the rates: `step(epoch)`, a loop that only steps, or a manual assignment."""
        for node in python_ast.walk(self.model.tree.scope_around(call)):
            if isinstance(node, ast.Attribute) and node.attr == "param_groups" and not self._reads_only(node):
                return True
            if not isinstance(node, ast.Call) or python_ast.dotted(node.func) != f"{name}.step":
                continue
            if node.args or node.keywords or resumes.is_replayed(node, self.model.tree):
                return True
        return False

    def _steps_by_epoch(self, call: ast.Call, made: ast.Call, name: str) -> bool:
        """Whether a schedule steps in a loop over epochs, and in no other loop."""
        if self._paces(made) == {cadence.Pace.EPOCH}:
            return True
        steps = [
            node
            for node in python_ast.walk(self.model.tree.scope_around(call))
            if isinstance(node, ast.Call) and python_ast.dotted(node.func) == f"{name}.step"
        ]
        around = [[item for item in self.model.tree.ancestors(step) if isinstance(item, ast.For)] for step in steps]
        return bool(around) and all(
            len(loops) == 1 and _EPOCH.search(ast.unparse(loops[0].target)) is not None for loops in around
        )

    def _paces(self, made: ast.Call) -> set[cadence.Pace]:
        """The frequencies of the steps of a schedule."""
        found = set()
        for trace in self.model.program.traces:
            for step in trace.of(events.ScheduleStep):
                sites = [item.site for item in values.meanings(step.scheduler)]
                optimizer = cadence.optimizer_of(step)
                if sites == [python_ast.site_of(made)] and optimizer is not None:
                    found.add(self.model.cadence.of(trace, step, optimizer).pace)
        return found

    def _reads_only(self, groups: ast.Attribute) -> bool:
        """`optimizer.param_groups[0]["lr"]`, whose value is shown."""
        first = self.model.tree.parent(groups)
        entry = self.model.tree.parent(first) if isinstance(first, ast.Subscript) else None
        return isinstance(entry, ast.Subscript) and isinstance(entry.ctx, ast.Load)

    def report_Late(self, found: Late) -> None:
        self.report(
            found.site,
            f"`{found.name}` is created after the state of `{found.optimizer}` was loaded: it resets the learning rate",
            related=[(found.load, "the state is loaded here"), (found.resumed, "the schedule resumes here")],
            help="create the schedule first, then load both states",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )
