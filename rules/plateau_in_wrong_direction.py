"""Plateau schedules with the wrong direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_OTHER = {"min": "max", "max": "min"}


class WrongDirection(NamedTuple):
    """The schedule created at `made` receives at `site` a score of the opposite direction."""

    site: Site
    made: Site
    mode: str


class PlateauInWrongDirection(Rule):
    """`ReduceLROnPlateau` mistakes each improvement for a plateau.

    ## What it does
    Finds `ReduceLROnPlateau(mode="max")` that is stepped with a loss, and the default `mode="min"` that is stepped with
    an accuracy. torchlint follows `.item()`, means, sums over batches, and divisions by a count.

    Not reported if the number also depends on something else.

    ## Why is this bad?
    The scheduler waits for the score to move in the wrong direction. It counts each improvement as a bad epoch, so the
    learning rate falls while training goes well. Soon the model stops learning.

    ## Example
    ```python
    import torch

    def train(model, batches, x, y, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
        for epoch in range(epochs):
            for inputs, labels in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
            with torch.no_grad():
                accuracy = (model(x).argmax(1) == y).float().mean()
            scheduler.step(accuracy)
    ```

    Use instead:
    ```python
    import torch

    def train(model, batches, x, y, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=3)
        for epoch in range(epochs):
            for inputs, labels in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
            with torch.no_grad():
                accuracy = (model(x).argmax(1) == y).float().mean()
            scheduler.step(accuracy)
    ```

    ## References
    - [ReduceLROnPlateau](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html)
    """

    code = "TL125"
    category = Category.CORRECTNESS
    triggers = ((b"ReduceLROnPlateau", b".fit(", b".train(", b".run("),)

    def ask(self) -> Iterator[WrongDirection]:
        from torchlint.model.queries.scores import Better, Scores

        scores, seen = Scores(self.model.program), set[python_ast.Site]()
        wrong = {"min": Better.HIGHER, "max": Better.LOWER}
        for trace in self.model.program.traces if not self.model.is_test else ():
            for step in trace.of(events.ScheduleStep):
                made = values.resolved(step.scheduler).site
                mode = self._mode(made) if made is not None and len(step.by) == 1 else None
                if made is None or mode is None or step.site in seen:
                    continue
                if scores.better(step.by[0]) is wrong[mode]:
                    seen.add(step.site)
                    yield WrongDirection(step.site, made, mode)

    def _mode(self, made: Site) -> str | None:
        """The mode of a plateau schedule, as written at its creation."""
        tree = self.model.tree if made.inner is None else made.inner.tree
        call = tree.own_node(made.written)
        if not isinstance(call, ast.Call) or python_ast.called_name(call) != "ReduceLROnPlateau":
            return None
        if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
            return None
        given = [item.value for item in call.keywords if item.arg == "mode"] or call.args[1:2]
        mode = given[0].value if given and isinstance(given[0], ast.Constant) else None if given else "min"
        return mode if isinstance(mode, str) and mode in _OTHER else None

    def report_WrongDirection(self, found: WrongDirection) -> None:
        gets, name = "a loss, for which lower is better", "loss"
        if found.mode == "min":
            gets, name = "an accuracy, for which higher is better", "accuracy"
        self.report(
            found.site,
            f"with mode `{found.mode}`, the schedule gets {gets}: the learning rate falls while the {name} improves",
            related=[(found.made, "the schedule is created here")] if found.made.here != found.site.here else [],
            help=f'create it with `mode="{_OTHER[found.mode]}"`',
        )
