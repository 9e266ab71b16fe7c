"""State dictionaries that are kept while the weights in them go on changing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING

from torchlint import Category, Rule, edits
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

    from ._kept_networks import KeptByObject, KeptNetwork
    from ._kept_state_dicts import KeptReference


class UncopiedStateDict(Rule):
    """Weights are kept by `state_dict()` without a copy, while training goes on.

    ## What it does
    Finds `model.state_dict()` in a training loop if the result is kept in a variable, an attribute or a dictionary
    without a copy, an optimizer steps afterwards, and what was kept is then loaded, saved or returned. No copies of
    the weights are `dict(...)`, `OrderedDict(...)`, `copy.copy(...)`, `.copy()` and a comprehension without `.clone()`.
    Nothing is said if the weights are used before the next step, if they are copied anywhere on the way, if each
    iteration makes a new model, or if `.cpu()` is called on the model or on its weights: that is a copy on a GPU.

    ## Why is this bad?
    `state_dict()` returns references to the parameters. Each later step changes what was kept, so "the best weights"
    are those of the last step: the early stop or the best checkpoint has no effect, and nothing says so.

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
    The fix copies the weights wherever they are kept in that place, also before the loop. It is unsafe, since other
    weights are loaded or saved with it. It is offered where the file imports `copy`. The state of an optimizer that is
    kept beside the weights has to be copied by hand.

    ## What verify shows
    `torchlint verify` follows it: confirmed if the state is loaded after steps, and is the memory of the module
    itself; refuted if it is loaded into a module with memory of its own.

    ## Known limits
    Weights that are appended to a list are not followed, nor what is saved in the loop in which it is kept, nor a
    training loop and an early stop that stand in different files.

    ## References
    - [Saving and loading models](https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html)
    """

    code = "TL116"
    category = Category.CORRECTNESS
    triggers = ((b"state_dict", b"best", b".step("),)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward or index.optimizes or index.has_word((b"load_state_dict",))

    def ask(self) -> Iterator[KeptReference | KeptNetwork | KeptByObject]:
        from ._kept_networks import KeptByObjects, KeptNetworks
        from ._kept_state_dicts import KeptReferences

        found = {kept.site: kept for kept in KeptReferences(self.model).answers()}
        yield from found.values()
        if not self.model.is_test:
            yield from KeptNetworks(self.model).answers()
            yield from (kept for kept in KeptByObjects(self.model).answers() if kept.site not in found)

    def report_KeptReference(self, kept: KeptReference) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` keeps the parameters of `{kept.model}` and no copy: later steps change what was kept",
            related=[(kept.use, f"the weights of the last step are {kept.verb} here")],
            help=f"keep `copy.deepcopy({kept.model}.state_dict())`",
            fix=self._fix((kept.site, *kept.others)),
        )

    def report_KeptNetwork(self, kept: KeptNetwork) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` is `{kept.model}` itself and no copy: later steps change it",
            related=[(kept.use, "this is the network after the last step")],
            help=f"keep `copy.deepcopy({kept.model})`",
        )

    def report_KeptByObject(self, kept: KeptByObject) -> None:
        self.report(
            kept.site,
            f"`{kept.place}` keeps the parameters of `{kept.model}` and no copy: later steps change what was kept",
            related=[(kept.use, "this loads the weights that the network has already")],
            help=f"keep `copy.deepcopy({kept.model}.state_dict())`",
        )

    def _fix(self, sites: tuple[python_ast.Site, ...]) -> edits.Change | None:
        """A copy of all that is kept in the place: what stays there without a better one would else change, too."""
        calls = [self.model.tree.node(site) for site in sites]
        written = [node for node in map(self.written, sites) if node is not None]
        for name in ("copy.deepcopy", "deepcopy"):
            is_imported = self.model.definitions.is_only_imported(name.partition(".")[0])
            means = {self.model.definitions.qualified(name, call) for call in calls}
            if is_imported and means == {"copy.deepcopy"} and len(written) == len(sites):
                copies = [f"{name}({self.model.tree.code(site)})" for site in sites]
                return edits.Change("keep a deep copy", list(starmap(edits.Replace, zip(written, copies, strict=True))))
        return None
