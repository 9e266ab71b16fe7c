"""Modules with a method `backward`, which autograd never calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.syntax import python_ast

_MODULES = frozenset({"torch.nn.Module", "torch.nn.modules.module.Module"})


class Uncalled(NamedTuple):
    """Autograd does not call the `backward` at `site`, a method of the module `owner`."""

    site: python_ast.Site
    owner: str


class BackwardOfModule(Rule):
    """A module defines its gradient in `backward`, which autograd never calls.

    ## What it does
    Finds classes that derive directly from `nn.Module` and have a method `backward` that receives a gradient and
    returns one, such as `return -grad`, where no code calls it with an argument.

    Not reported where a file of the repository calls `backward` of such an object: networks that compute their
    gradients by hand do so.

    ## Why is this bad?
    Only `torch.autograd.Function` has a `backward` for autograd. Autograd differentiates the module's `forward` and
    ignores this method. A gradient reversal layer then passes the gradient on unchanged, so the network helps the
    domain classifier instead of confusing it.

    ## Example
    ```python
    from torch import nn

    class GradientReversal(nn.Module):
        def forward(self, x):
            return x

        def backward(self, grad):
            return -grad
    ```

    Use instead:
    ```python
    import torch

    class GradientReversal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -grad
    ```

    ## References
    - [Extending torch.autograd](https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-autograd)
    """

    code = "TL345"
    category = Category.CORRECTNESS
    triggers = ((b"def backward",), (b"Module",))

    def ask(self) -> Iterator[Uncalled]:
        for info in self.model.definitions.classes.values():
            method = info.methods.get("backward")
            unknown = {item for item in info.ancestors() if isinstance(item, str)} - {"object"}
            is_module = bool(unknown) and unknown <= _MODULES
            if method is None or not is_module or "forward" not in info.methods:
                continue
            if _maps_gradient(method) and not self._may_be_called(info):
                yield Uncalled(python_ast.site_of(method.node), info.name)

    def _may_be_called(self, info: definitions.ClassInfo) -> bool:
        """Whether some code passes gradients to a `backward` of unknown objects, or names the method."""
        files = (self.model.definitions, *self.model.importers(info.name, (b".backward",)))
        return any(_passes_gradient(file.tree.of_type(ast.Attribute), file) for file in files)

    def report_Uncalled(self, found: Uncalled) -> None:
        self.report(
            found.site,
            f"autograd never calls `backward` of the module `{found.owner}`: it differentiates `forward`",
            help="write a `torch.autograd.Function` with this `backward`, and call its `apply` in `forward`",
        )


def _passes_gradient(attributes: Iterator[ast.Attribute], file: definitions.Definitions) -> bool:
    """Whether a file calls `x.backward(gradient)`, or mentions `x.backward` without calling it."""
    for node in attributes:
        if node.attr == "backward" and isinstance(node.ctx, ast.Load):
            call = file.tree.parent(node)
            if not isinstance(call, ast.Call) or call.func is not node or call.args:
                return True
    return False


def _maps_gradient(method: definitions.FunctionInfo) -> bool:
    """Whether a method computes its result from its only argument, and goes backward through nothing."""
    if len(method.parameters) != 2 or method.decorators:
        return False
    returned = [node.value for node in python_ast.walk(method.node) if isinstance(node, ast.Return) and node.value]
    calls = [node for node in python_ast.walk(method.node) if isinstance(node, ast.Call)]
    is_own_pass = any(python_ast.called_name(call) in ("backward", "step", "grad", "scale") for call in calls)
    read = {name for value in returned for name in python_ast.names_in(value)}
    stored = [
        node for node in python_ast.walk(method.node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return bool(returned) and not is_own_pass and (method.parameters[1] in read or bool(stored))
