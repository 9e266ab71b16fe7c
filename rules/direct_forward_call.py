"""Modules whose `forward` is called directly."""

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
"""Methods by which a class defines its own call, or treats `forward` as one of two directions."""


class DirectForward(NamedTuple):
    """A call to a module's `forward`; `hooked` if that module has registered hooks."""

    call: Site
    module: str
    hooked: bool


class DirectForwardCall(Rule):
    """`forward` of a module is called directly and skips its hooks.

    ## What it does
    Finds `model.forward(x)` where torchlint knows that `model` is a module.

    Not reported: `super().forward(x)`, `self.forward(x)`, modules that call the `forward` of a submodule, and
    normalizing flows, which have an `inverse`.

    ## Why is this bad?
    `model(x)` runs the module's hooks and then `forward`, but `model.forward(x)` runs no hook. Features built on hooks
    are silently skipped: the older versions of weight norm and spectral norm, profilers, feature extractors, and the
    sharding of `fully_shard`.

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
    The fix calls the module itself. It is unsafe, because the hooks of the module then run.

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
        """Whether a value certainly is a module, and no class of the program defines its call."""
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
        """Whether a module, or a possible module, makes the call on itself or on a part of itself."""
        method = self.model.definitions.method_around(call)
        bases = [] if method is None or method.owner is None else list(method.owner.ancestors())[1:]
        return any(base not in ("builtins.object", "abc.ABC") for base in bases if isinstance(base, str))

    # -- report ----------------------------------------------------------------------------------------

    def report_DirectForward(self, direct: DirectForward) -> None:
        name = f"`{direct.module}`" if direct.module else "the module"
        if direct.hooked:
            message = f"hooks are registered on {name}, but this call to its `forward` skips them"
        else:
            message = f"`forward` of {name} is called directly: the module's hooks do not run"
        self.report(direct.call, message, help=f"call {name}", fix=self._fix(direct.call))

    def _fix(self, site: Site) -> edits.Change | None:
        call = self.model.tree.node(site)
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        function = self.written(python_ast.site_of(call.func))
        name = python_ast.dotted(call.func.value)
        if function is None or not name or self.model.tree.code(call.func.value) != name:
            return None
        return edits.Change("call the module", [edits.Replace(function, name)])
