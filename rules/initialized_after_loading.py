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
    Finds `model.apply(init_weights)`, `init_weights(model)` and `self._init_weights()` on all layers, after
    `load_state_dict` on the same network or after a pretrained network became part of it. torchlint analyzes the
    called functions, methods and constructors.

    This rule is a preview because common correct code looks the same, such as functions that skip loaded layers.

    ## Why is this bad?
    Random weights overwrite the pretrained ones. Training starts from scratch, and there is no error.

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
    `torchlint verify` tracks the loaded weights. It confirms the finding if the line overwrites at least nine in ten of
    them before the model runs. It refutes the finding if the model runs with the weights as they were loaded.
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
            f"this overwrites the loaded weights of `{found.name}` with new initial values",
            related=[(found.load, "they are loaded here")],
            help="initialize before loading, or initialize only the new layers",
        )
