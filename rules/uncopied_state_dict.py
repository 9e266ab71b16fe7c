"""State dictionaries stored by reference while their weights still change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING

from torchlint import Category, Rule, edits
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.relations import held

    from ._kept_networks import KeptByObject, KeptNetwork


class UncopiedStateDict(Rule):
    """The best weights are stored without a copy while training continues.

    ## What it does
    Finds weights that are stored without a copy: a variable, an attribute, a list or a dictionary stores
    `model.state_dict()` in a training loop. After that, an optimizer steps. Later the code loads, saves or returns the
    stored weights. `dict(...)`, `OrderedDict(...)`, `copy.copy(...)`, `.copy()` and a comprehension without `.clone()`
    do not copy the weights either.

    Not reported:

    - weights that the code uses before the next step
    - weights that the code copies on the way
    - a new model in each iteration
    - `.cpu()` on the model or its weights, which copies them on a GPU

    ## Why is this bad?
    `state_dict()` returns the parameters themselves, not copies. Each later step changes the stored weights, so "the
    best weights" are those of the last step. Early stopping and the best checkpoint have no effect, and there is no
    error.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.Adam(model.parameters())
        best_loss = float("inf")
        for epoch in range(epochs):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            if total < best_loss:
                best_loss = total
                best_weights = model.state_dict()
        model.load_state_dict(best_weights)
    ```

    Use instead:
    ```python
    import copy

    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.Adam(model.parameters())
        best_loss = float("inf")
        for epoch in range(epochs):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            if total < best_loss:
                best_loss = total
                best_weights = copy.deepcopy(model.state_dict())
        model.load_state_dict(best_weights)
    ```

    ## Fix safety
    The fix copies the weights at each place where the code stores them. It is unsafe because the code then loads or
    saves other weights. torchlint offers the fix only if the file imports `copy`. If the code also stores the state of
    an optimizer, you have to copy it by hand.

    ## What verify shows
    `torchlint verify` tracks the stored state. It confirms the finding if the program loads this state after steps and
    it shares the module's memory. It refutes the finding if the state has memory of its own.

    ## Known limits
    torchlint does not follow weights that the code assigns to a variable before `if score > best` and stores inside it.

    ## References
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL116"
    category = Category.CORRECTNESS
    triggers = ((b"state_dict", b"best", b".step("),)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward or index.optimizes or index.has_word((b"load_state_dict",))

    def ask(self) -> Iterator[held.Reference | KeptNetwork | KeptByObject]:
        from ._kept_networks import KeptByObjects, KeptNetworks

        found = {kept.site: kept for kept in self.model.held.references.stale()}
        yield from found.values()
        if not self.model.is_test:
            yield from KeptNetworks(self.model).answers()
            yield from (kept for kept in KeptByObjects(self.model).answers() if kept.site not in found)

    def report_Reference(self, kept: held.Reference) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` references the parameters of `{kept.model}`, not a copy: later steps change them",
            related=[(kept.use, f"the weights of the last step are {kept.verb} here")],
            help=f"store `copy.deepcopy({kept.model}.state_dict())`",
            fix=self._fix((kept.site, *kept.others)),
        )

    def report_KeptNetwork(self, kept: KeptNetwork) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` is `{kept.model}` itself, not a copy: later steps change it",
            related=[(kept.use, "this is the network after the last step")],
            help=f"store `copy.deepcopy({kept.model})`",
        )

    def report_KeptByObject(self, kept: KeptByObject) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` references the parameters of `{kept.model}`, not a copy: later steps change them",
            related=[(kept.use, "this loads the network's current weights")],
            help=f"store `copy.deepcopy({kept.model}.state_dict())`",
        )

    def _fix(self, sites: tuple[python_ast.Site, ...]) -> edits.Change | None:
        """A copy at every store into the place, since the others would otherwise change too."""
        calls = [self.model.tree.node(site) for site in sites]
        written = [node for node in map(self.written, sites) if node is not None]
        for name in ("copy.deepcopy", "deepcopy"):
            is_imported = self.model.definitions.is_only_imported(name.partition(".")[0])
            means = {self.model.definitions.qualified(name, call) for call in calls}
            if is_imported and means == {"copy.deepcopy"} and len(written) == len(sites):
                copies = [f"{name}({self.model.tree.code(site)})" for site in sites]
                return edits.Change(
                    "store a deep copy", list(starmap(edits.Replace, zip(written, copies, strict=True)))
                )
        return None
