"""Objects that are recreated after their state was loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Discarded(NamedTuple):
    """`place` receives a new object at `site`; nothing used the one whose state was loaded at `load`."""

    site: Site
    place: str
    load: Site


class DiscardedState(Rule):
    """An optimizer, scheduler or model is recreated after its state was loaded.

    ## What it does
    Finds a name that is assigned a new object after `load_state_dict` on the previous one, where nothing uses the
    previous one in between. The load and the second creation may be in different functions or methods. Example:
    `trainer.resume(path)` loads the state, and then `trainer.fit()` creates the optimizer.

    ## Why is this bad?
    The loaded state is lost: momentum and learning rate, the position in the schedule, or the weights. The resumed run
    starts partly from scratch, and there is no error.

    ## Example
    ```python
    import torch

    def resume(model, checkpoint):
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.load_state_dict(checkpoint["optimizer"])
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        return optimizer
    ```

    Use instead:
    ```python
    import torch

    def resume(model, checkpoint):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        optimizer.load_state_dict(checkpoint["optimizer"])
        return optimizer
    ```

    ## References
    - [Saving and loading a general checkpoint](https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html)
    """

    code = "TL328"
    category = Category.CORRECTNESS
    triggers = ((b"load_state_dict", b"resume", b"restore", b"checkpoint", b"ckpt"), (b"torch",))

    def ask(self) -> Iterator[Discarded]:
        if not self.model.is_test:
            for site, place, load in self.model.provenance.states.discarded():
                yield Discarded(site, place, load)

    def report_Discarded(self, found: Discarded) -> None:
        self.report(
            found.site,
            f"`{found.place}` is recreated after its state was loaded: that state is lost",
            related=[(found.load, "the state is loaded here")],
            help="load the state into the new object",
        )
