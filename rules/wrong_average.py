"""Weight averages whose update does not average."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.relations import provenance
from torchlint.syntax import python_ast

_NAMES = LazyPattern(r"(?i)(?<![a-z])(ema|average|avg|averaged|shadow|teacher|slow|polyak|soft|target|tgt|ma)(?![a-z])")
"""Names of networks that follow another, and of functions that create them."""
_CAPITALS = LazyPattern(r"(?<=[a-z])([A-Z])")
_LONGEST = 12
_HIGH = 0.9
"""The share of the new weights at and above which nothing is averaged."""


class Fault(Enum):
    """The fault of an update; the value contains the message and the advice."""

    AWAY = (
        "moves away from the new weights",
        "subtract `{rate}` times the difference between the average and the new weights",
    )
    SUM = "shrinks or grows", "give the new weights the remaining share: `1 - {rate}`"
    SWAPPED = "keeps almost nothing of itself", "apply the share `{rate}` to the average, not to the new weights"


class Wrong(NamedTuple):
    """The update of the average `name` at `site` has a fault."""

    site: python_ast.Site
    name: str
    rate: str
    fault: Fault


class WrongAverage(Rule):
    """A moving average of weights does not average.

    ## What it does
    Computes two shares for a loop over the weights of two networks: the share of itself that the average keeps, and the
    share of the new weights that it adds. torchlint follows variables, in-place methods, and functions in the file. It
    reports:

    - shares that do not sum to one, as in `decay * average + decay * p`;
    - updates that add the difference instead of subtracting it;
    - a decay applied to the new weights, if its default is near one, as in `a.lerp_(p, decay)`.

    ## Why is this bad?
    The average is useless for evaluation, checkpoints or targets, although the trained model looks fine. With
    shares that do not sum to one, its weights shrink or grow with each update. With a wrong sign it moves away from
    the model.

    ## Example
    ```python
    import torch

    @torch.no_grad()
    def update_ema(average, model, decay):
        for a, p in zip(average.parameters(), model.parameters()):
            a.mul_(decay).add_(p, alpha=decay)
    ```

    Use instead:
    ```python
    import torch

    @torch.no_grad()
    def update_ema(average, model, decay):
        for a, p in zip(average.parameters(), model.parameters()):
            a.mul_(decay).add_(p, alpha=1 - decay)
    ```

    ## References
    - [Weight averaging](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema)
    """

    code = "TL332"
    category = Category.CORRECTNESS
    triggers = ((b"parameters", b"params", b"state_dict", b"shadow"), (b"for ",))

    def ask(self) -> Iterator[Wrong]:
        for loop in self.model.tree.of_type(ast.For) if not self.model.is_test else ():
            if len(loop.body) <= _LONGEST and _NAMES.search(self._words(loop)):
                for update in self.model.provenance.average_updates(loop):
                    fault = self._fault(update) if update.rate is not None else None
                    if fault is not None and update.rate is not None:
                        yield Wrong(python_ast.site_of(update.node), update.name, update.rate, fault)

    def _fault(self, update: provenance.AverageUpdate) -> Fault | None:
        sums = [kept + new for kept, new in zip(update.kept, update.new, strict=True)]
        if len(set(update.new)) == 1:
            return None  # the rate is not the cause: a sum, or a momentum
        if all(new < 0 for new in update.new):
            return Fault.AWAY if set(sums) == {1} else None  # otherwise a step against a gradient
        if len(set(update.kept)) > 1 and all(total != 1 for total in sums):
            return Fault.SUM
        is_plain = update.rate is not None and update.new == update.rates[update.rate] and set(sums) == {1}
        return Fault.SWAPPED if is_plain and (update.default or 0) >= _HIGH and update.default != 1 else None

    def _words(self, loop: ast.For) -> str:
        """The names in a loop, its function and its class, split into words."""
        around = self.model.definitions.method_around(loop)
        places = [around.name if around is not None else "", around.owner.name if around and around.owner else ""]
        nodes = (node for node in python_ast.walk(loop) if isinstance(node, (ast.Name, ast.Attribute)))
        places += [node.id if isinstance(node, ast.Name) else node.attr for node in nodes]
        return _CAPITALS.sub(r" \1", " ".join(places)).replace("_", " ")

    def report_Wrong(self, found: Wrong) -> None:
        text, advice = found.fault.value
        self.report(
            found.site,
            f"the average `{found.name}` {text} at each update",
            help=advice.format(rate=found.rate),
        )
