"""Checkpoints that the same program saves and cannot load."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import refused_checkpoints
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Refused(NamedTuple):
    """The `torch.load` at `site` refuses the entry `key`, or everything, that is saved at `saved`."""

    site: Site
    key: str
    what: str
    saved: Site


class UnloadableCheckpoint(Rule):
    """A program cannot load the checkpoint that it saves.

    ## What it does
    Finds `torch.save` and `torch.load` of one path in a file, where the load accepts only weights, the default since
    PyTorch 2.6. The checkpoint holds a whole module or optimizer, the arguments of the program, or NumPy values.

    ## Why is this bad?
    `torch.load` raises `UnpicklingError`. The error appears after training, when the weights are needed.

    ## Example
    ```python
    import torch

    def save(model):
        model.eval()
        torch.save(model, "model.pt")

    def load():
        return torch.load("model.pt")
    ```

    Use instead:
    ```python
    import torch

    def save(model):
        model.eval()
        torch.save(model.state_dict(), "model.pt")

    def load(model):
        model.load_state_dict(torch.load("model.pt"))
    ```

    ## References
    - [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html): "weights_only"
    """

    code = "TL807"
    category = Category.CORRECTNESS
    triggers = ((b"save",), (b"load",), (b"torch",))

    def ask(self) -> Iterator[Refused]:
        if self.model.is_test:
            return
        checkpoints = refused_checkpoints.RefusedCheckpoints(self.model)
        for call in self.model.tree.of_type(ast.Call) if checkpoints.files.saves else ():
            if checkpoints.is_refusing(call):
                yield from itertools.islice(self._refused(call, checkpoints), 1)

    def _refused(self, load: ast.Call, checkpoints: refused_checkpoints.RefusedCheckpoints) -> Iterator[Refused]:
        for saved, call in checkpoints.files.saved_for(load):
            entry = checkpoints.entry(saved)
            if entry is not None:
                yield Refused(python_ast.site_of(load), *entry, python_ast.site_of(call))

    # -- report ----------------------------------------------------------------------------------------

    def report_Refused(self, refused: Refused) -> None:
        what = f"`{refused.key}`, {refused.what}" if refused.key else refused.what
        self.report(
            refused.site,
            f"`torch.load` refuses {what}: since PyTorch 2.6, `weights_only` is true by default",
            related=[(refused.saved, "it is saved here")],
            help="save state dictionaries and plain values, or pass `weights_only=False` for your own file",
        )
