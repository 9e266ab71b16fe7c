"""Weights that are initialized after they were loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_INITIALIZING = LazyPattern(
    r"(?i)^_?(re)?(init|initiali[sz]e|reset)_?(all_?)?(weights?|params?|parameters)|weights?_init|init_?fn"
)
"""Names of functions that initialize weights."""
_ALL = LazyPattern(r"\bself\.(modules|named_modules|apply|parameters|named_parameters)\s*\(")


class Overwritten(NamedTuple):
    """The weights of `name`, loaded at `load`, are initialized at `site`."""

    site: Site
    name: str
    load: Site


class InitializedAfterLoading(Rule):
    """Weights are initialized after they were loaded.

    ## What it does
    Finds `model.apply(init_weights)`, `init_weights(model)` and `self._init_weights()` of all layers, behind
    `load_state_dict` of the same network or behind a pretrained one that becomes a part of it. A preview: some
    functions leave layers alone that have been loaded.

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
            network = self._initialized(call)
            if network is None or not self.model.tree.stands_alone(call):
                continue
            for statement in reversed(self.model.tree.before(call)):
                load = self._loading(statement, python_ast.dotted(network))
                if load is not None:
                    target, node = load
                    yield Overwritten(python_ast.site_of(call), target, python_ast.site_of(node))
                    break

    def _initialized(self, call: ast.Call) -> ast.expr | None:
        """The network of which a call initializes all layers."""
        name, method = python_ast.called_name(call), call.func
        if name == "apply" and isinstance(method, ast.Attribute) and call.args:
            return method.value if _INITIALIZING.search(python_ast.dotted(call.args[0]).rpartition(".")[2]) else None
        if not _INITIALIZING.search(name):
            return None
        if isinstance(method, ast.Attribute) and not call.args:
            called = names.function(method, self.model.definitions)
            text = self.model.tree.code(called.node) if called is not None else ""
            return method.value if _ALL.search(text) else None
        return call.args[0] if call.args and isinstance(call.args[0], (ast.Name, ast.Attribute)) else None

    def _loading(self, statement: ast.AST, network: str) -> tuple[str, ast.AST] | None:
        """The network that a statement loads, where it is this one or a part of `self`, and the call that loads."""
        made = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(statement, ast.Assign) and isinstance(made, ast.Call) and _is_pretrained(made):
            target = python_ast.dotted(statement.targets[0])
            if target == network or (network == "self" and target.startswith("self.")):
                return target, made
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict":
            target = python_ast.dotted(call.func.value)
            if target == network or (network == "self" and target.startswith("self.")):
                return target, call
        return None

    def report_Overwritten(self, found: Overwritten) -> None:
        self.report(
            found.site,
            f"the weights of `{found.name}` were loaded before: this initializes them anew",
            related=[(found.load, "they are loaded here")],
            help="initialize first and load then, or initialize the new layers only",
        )


def _is_pretrained(call: ast.Call) -> bool:
    """`resnet50(pretrained=True)`, `resnet50(weights="DEFAULT")`."""
    given = {item.arg: item.value for item in call.keywords}
    weights = given.get("weights")
    has_weights = weights is not None and not isinstance(weights, ast.Name) and not python_ast.is_literal(weights, None)
    return has_weights or python_ast.is_literal(given.get("pretrained", ast.Pass()), True)
