"""Weights that are initialized after they were loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import initial_weights
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Overwritten(NamedTuple):
    """The weights of `name`, loaded at `load`, are initialized at `site`."""

    site: Site
    name: str
    load: Site


class InitializedAfterLoading(Rule):
    """Weights are initialized after they were loaded.

    ## What it does
    Finds `model.apply(init_weights)`, `init_weights(model)` and `self._init_weights()` of all layers, behind
    `load_state_dict` of the same network or behind a pretrained one that becomes a part of it. It looks into the
    functions, methods and constructors that are called. A preview: some functions leave layers alone that have been
    loaded.

    ## Why is this bad?
    The pretrained weights are overwritten by random ones. Training starts from the beginning, and nothing says so.

    ## Example
    ```python
    import torch
    from torch import nn

    def make(path, init_weights):
        model = nn.Linear(4, 2)
        model.load_state_dict(torch.load(path))
        model.apply(init_weights)
        return model
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    def make(path, init_weights):
        model = nn.Linear(4, 2)
        model.apply(init_weights)
        model.load_state_dict(torch.load(path))
        return model
    ```

    ## What verify shows
    `torchlint verify` follows it: confirmed if nine in ten of the weights that were loaded, or more, are filled at
    the line before a model is called with them; refuted if they are used as they were loaded.
    """

    code = "TL323"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"load_state_dict", b"pretrained", b"weights="), (b"init", b"reset"))

    def ask(self) -> Iterator[Overwritten]:
        for call in self.model.tree.of_type(ast.Call):
            network = initial_weights.initialized(call, self.model.definitions)
            if network is None or not self.model.tree.stands_alone(call):
                continue
            for statement in reversed(self.model.tree.before(call)):
                load = initial_weights.loading(statement, python_ast.dotted(network), self.model.definitions)
                if load is not None:
                    target, node = load
                    yield Overwritten(python_ast.site_of(call), target, python_ast.site_of(node))
                    break

    def report_Overwritten(self, found: Overwritten) -> None:
        self.report(
            found.site,
            f"the weights of `{found.name}` were loaded before: this initializes them anew",
            related=[(found.load, "they are loaded here")],
            help="initialize first and load then, or initialize the new layers only",
        )
