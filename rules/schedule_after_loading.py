"""Schedules created after their optimizer's state was loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import resumes
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
    through `load_state_dict`, or through an assignment to its `last_epoch`.

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
        for call, optimizer, load in self.model.provenance.states.made_after_load(_PACKAGE):
            kind = python_ast.called_name(call)
            name = self._name(call)
            place = {**_FOR_EVER, **_ONCE}.get(kind, 0)
            is_new = not any(item.arg in ("last_epoch", None) for item in call.keywords) and len(call.args) <= place
            if self.model.is_test or not name or not is_new:
                continue
            resumed = self._resumed(call, name)
            if resumed is not None and not self._is_replayed(call, name):
                site = python_ast.site_of(call)
                yield Late(
                    site,
                    name,
                    optimizer,
                    load,
                    python_ast.site_of(resumed),
                    kind in _FOR_EVER or self._steps_by_epoch(call, name),
                )

    def _name(self, call: ast.Call) -> str:
        """The name that stores a schedule."""
        statement = self.model.tree.parent(call)
        is_plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        return python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) and is_plain else ""

    def _resumed(self, call: ast.Call, name: str) -> ast.AST | None:
        """The place where a schedule resumes from a checkpoint, after its creation."""
        for node in python_ast.walk(self.model.tree.scope_around(call)):
            is_later = getattr(node, "lineno", 0) > call.lineno
            if is_later and isinstance(node, ast.Call) and python_ast.dotted(node.func) == f"{name}.load_state_dict":
                return node
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if is_later and target is not None and python_ast.dotted(target) == f"{name}.last_epoch":
                return node
        return None

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

    def _steps_by_epoch(self, call: ast.Call, name: str) -> bool:
        """Whether a schedule steps in a loop over epochs, and in no other loop."""
        steps = [
            node
            for node in python_ast.walk(self.model.tree.scope_around(call))
            if isinstance(node, ast.Call) and python_ast.dotted(node.func) == f"{name}.step"
        ]
        around = [[item for item in self.model.tree.ancestors(step) if isinstance(item, ast.For)] for step in steps]
        return bool(around) and all(
            len(loops) == 1 and _EPOCH.search(ast.unparse(loops[0].target)) is not None for loops in around
        )

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
