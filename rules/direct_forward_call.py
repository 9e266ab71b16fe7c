"""Modules whose `forward` is called past the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.model import values
from torchlint.model.queries import torch_classes
from torchlint.pytorch import api
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
)

_OWN_WAYS = ("__call__", "inverse")
"""Methods of classes that say themselves what calling an object means, or what `forward` is: one of two directions."""


class DirectForward(NamedTuple):
    """A call of a module's `forward`; `hooked` if hooks are registered on that module."""

    call: Site
    module: str
    hooked: bool


class DirectForwardCall(Rule):
    """`forward` of a module is called directly, past its hooks.

    ## What it does
    Finds `model.forward(x)` where `model` is surely a module. `super().forward(x)`, `self.forward(x)`, modules that
    call the `forward` of a part of theirs, and flows, which have an `inverse`, are not meant.

    ## Why is this bad?
    `model(x)` runs the hooks of the module and then `forward`; `model.forward(x)` runs no hook. What works by hooks is
    skipped without a word: weight and spectral norm of old, profilers and feature extractors, the sharding of FSDP,
    the gradient averaging of DistributedDataParallel, and the compiled version of `torch.compile`.

    ## Example
    ```python
    from torch import nn

    def embed(x):
        model = nn.Linear(2, 2)
        return model.forward(x)
    ```

    Use instead:
    ```python
    from torch import nn

    def embed(x):
        model = nn.Linear(2, 2)
        return model(x)
    ```

    ## Fix safety
    Calling the module is unsafe: its hooks run then.

    ## References
    - [torch.nn.Module.forward](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html): "one should
      call the `Module` instance afterwards instead of this since the former takes care of running the registered hooks"
    """

    code = "TL306"
    category = Category.PEDANTIC
    triggers = ((b"forward",), (b"torch",))
    calls = frozenset({"forward"})

    def ask(self) -> Iterator[DirectForward]:
        if self.model.is_test:
            return
        for site, owner in self.model.program.observations.direct_forwards:
            node = self.model.tree.own_node(site)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self._is_module(owner):
                if not self._hands_on(node):
                    yield DirectForward(site, python_ast.dotted(node.func.value), owner.has_use(*_HOOKS))

    def _is_module(self, value: values.Value) -> bool:
        """Whether a value is surely a module, and no class of the program says what calling it does."""
        if isinstance(value, values.Phi):
            parts = list(values.meanings(value))
            return bool(parts) and all(map(self._is_module, parts))
        if isinstance(value, values.Module):
            info = value.info
            return info is None or (torch_classes.is_module_class(info) and not any(map(info.method, _OWN_WAYS)))
        if value.has_use(*_OWN_WAYS):
            return False
        evidence = set(api.MODULE_EVIDENCE) - {"forward", "train"}
        return isinstance(value, values.Unknown) and value.has_use(*evidence, *_HOOKS)

    def _hands_on(self, call: ast.Call) -> bool:
        """Whether a module makes the call, or an object that may be one: of itself, or of a part of itself."""
        method = self.model.definitions.method_around(call)
        bases = [] if method is None or method.owner is None else list(method.owner.ancestors())[1:]
        return any(base not in ("builtins.object", "abc.ABC") for base in bases if isinstance(base, str))

    # -- report ----------------------------------------------------------------------------------------

    def report_DirectForward(self, direct: DirectForward) -> None:
        name = f"`{direct.module}`" if direct.module else "the module"
        if direct.hooked:
            message = f"hooks are registered on {name}, and this call of its `forward` skips them"
        else:
            message = f"`forward` of {name} is called directly: hooks of the module do not run"
        self.report(direct.call, message, help=f"call {name}", fix=self._fix(direct.call))

    def _fix(self, site: Site) -> edits.Change | None:
        call = self.model.tree.node(site)
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        function = self.written(python_ast.site_of(call.func))
        name = python_ast.dotted(call.func.value)
        if function is None or not name or self.model.tree.code(call.func.value) != name:
            return None
        return edits.Change("call the module", [edits.Replace(function, name)])
