"""Anomaly detection in code that trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torchlint import Category, Rule, edits, prefilter

if TYPE_CHECKING:
    from torchlint.model.queries.anomaly_detection import AnomalyLeftOn
    from torchlint.syntax.python_ast import Site


class AnomalyDetectionLeftOn(Rule):
    """Anomaly detection is on in code that trains, with no switch.

    ## What it does
    Finds `set_detect_anomaly(True)`, `detect_anomaly()` and `Trainer(detect_anomaly=True)` that nothing decides
    about: no flag, argument, environment variable or configuration value.

    ## Why is this bad?
    Anomaly detection records a stack trace for every operator and checks every gradient for NaN. It is for
    finding one bug; left on, it makes every step several times slower.

    ## Example
    ```python
    import torch

    torch.autograd.set_detect_anomaly(True)

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer, debug=False):
        torch.autograd.set_detect_anomaly(debug)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix deletes the call, the argument or the `with` around a block. It is unsafe, because a NaN in a backward pass
    no longer raises.

    ## What verify shows
    `torchlint verify` confirms it by steps that run with it, and measures steps with and without on the last ones
    of its run; it refutes it by steps that run without.

    ## References
    - [Anomaly detection](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection)
    """

    code = "TL402"
    category = Category.PERFORMANCE
    triggers = (prefilter.ANOMALY,)

    def ask(self) -> Iterable[AnomalyLeftOn]:
        return self.model.anomaly_detection.left_on()

    def report_AnomalyLeftOn(self, left_on: AnomalyLeftOn) -> None:
        self.report(
            left_on.site,
            "anomaly detection is on for every step, and nothing switches it off: training is several times slower",
            help="delete it, or let a debugging flag decide",
            fix=self._fix(left_on.site),
        )

    def _fix(self, site: Site) -> edits.Change | None:
        switch = self.nodes.at(site) if self.nodes is not None else None
        if self.nodes is None or switch is None:
            return None
        tree = self.nodes.tree
        item = tree.parent(switch)
        block = tree.parent(item) if isinstance(item, cst.WithItem) and item.asname is None else None
        if isinstance(block, cst.With) and len(block.items) == 1:
            return edits.Change("take the block out of anomaly detection", [edits.Unwrap(block)])
        if isinstance(block, cst.With) and item is not None:
            return edits.Change("take the block out of anomaly detection", [edits.Delete(item)])
        if isinstance(switch, cst.Arg):
            return edits.Change("drop `detect_anomaly=True`", [edits.Delete(switch)])
        return edits.Change("delete the call", [edits.Delete(switch)]) if tree.stands_alone(switch) else None
