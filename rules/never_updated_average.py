"""Weight averages and target networks that keep the weights they were created with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.relations import provenance
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

from . import _copy_uses

_AVERAGES = LazyPattern(r"(?i)(^|[^a-z])(ema|averaged|polyak|swa)([^a-z]|$)")
_TARGETS = LazyPattern(r"(?i)(^|_)(target|tgt)(_|$)")
_REWARDS = (b"gamma", b"discount", b"reward")
"""Words of code that learns values from rewards, whose target network must follow the trained one."""


class Stale(NamedTuple):
    """The average created at `site` is read at `use`, but nothing changes it."""

    site: python_ast.Site
    name: str
    use: python_ast.Site


class NeverUpdatedAverage(Rule):
    """A weight average or target network keeps the weights it was created with.

    ## What it does
    Finds an `AveragedModel`, an object of a class that averages weights, a deep copy named `ema`, and the target
    network in code that uses rewards. The function or class around it trains, and reads the copy, but never updates it.

    Not reported if an unknown function receives the object.

    ## Why is this bad?
    The program evaluates, saves or learns from the initial weights. The metrics stay at chance, or a value function
    learns from the targets of an untrained network.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F
    from torch.optim.swa_utils import AveragedModel

    def train(model, loader):
        ema = AveragedModel(model)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        torch.save(ema.state_dict(), "ema.pt")
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F
    from torch.optim.swa_utils import AveragedModel

    def train(model, loader):
        ema = AveragedModel(model)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            ema.update_parameters(model)
        torch.save(ema.state_dict(), "ema.pt")
    ```

    ## References
    - [Weight averaging](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema)
    """

    code = "TL342"
    category = Category.CORRECTNESS
    preview = True
    triggers = (
        triggers.STEP,
        triggers.BACKWARD,
        (b"AveragedModel", b"ema", b"EMA", b"Ema", b"target", b"tgt", b"polyak"),
    )

    def ask(self) -> Iterator[Stale]:
        for statement in self.model.tree.of_type(ast.Assign) if not self.model.is_test else ():
            target, made = statement.targets[0], provenance.itself(statement.value)
            place = python_ast.dotted(target)
            if not place or not isinstance(made, ast.Call) or not self._is_average(place, made):
                continue
            read = _copy_uses.CopyUses(self.model, target, made).only_read()
            if read is not None:
                yield Stale(python_ast.site_of(target), place, python_ast.site_of(read))

    def _is_average(self, place: str, made: ast.Call) -> bool:
        """Whether a call creates a copy that training must update."""
        name = self.model.definitions.named(made.func)
        if name == "torch.optim.swa_utils.AveragedModel":
            return True
        last = place.rpartition(".")[2]
        is_target = bool(_TARGETS.search(last)) and any(word in self.model.tree.source.code for word in _REWARDS)
        if name == "copy.deepcopy":
            return bool(_AVERAGES.search(last)) or is_target
        if is_target and any(python_ast.dotted(item.target) == place for item in self.model.provenance.copies):
            return self.model.provenance.has_weights(made)
        info = self.model.definitions.class_named(python_ast.dotted(made.func))
        return info is not None and any(_copy_uses.averages(method) for method in info.methods.values())

    def report_Stale(self, stale: Stale) -> None:
        self.report(
            stale.site,
            f"`{stale.name}` is never updated: it keeps the weights it was created with",
            related=[(stale.use, "it is used here")],
            help="update it after each step of the optimizer",
        )
