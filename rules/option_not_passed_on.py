"""Options that a function receives, and does not pass on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import definitions
from torchlint.model.queries import callees
from torchlint.syntax import python_ast

_OPTIMIZER_OPTIONS = frozenset({"lr", "weight_decay"})
_OTHERS = {"betas": ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"), "momentum": ("SGD", "RMSprop"), "nesterov": ("SGD",)}
"""Options of some optimizers only."""
_GRADIENTS = (b"torch", b".backward(", b"nn.Module", b"optim")


class NotPassed(NamedTuple):
    """The call at `site` could receive the unused parameter `name`, which is declared at `declared`."""

    site: python_ast.Site
    name: str
    callee: str
    declared: python_ast.Site


class OptionNotPassedOn(Rule):
    """A function receives an option, and calls another function without it.

    ## What it does
    Finds a parameter that a function never reads, although the function makes a call that has an option of the same
    name and leaves this option out. The call creates a PyTorch optimizer with `lr` or `weight_decay`. Or it calls a
    function, method or class of the same file whose parameter of that name has a default.

    Not reported where the function overrides a method of an unknown class, has a decorator, or receives or passes
    `**options`.

    This rule is a preview because a third of its findings are unimportant: parameters that no caller sets.

    ## Why is this bad?
    The option has no effect. Experiments with different dropout rates, loss weights or learning rates are the same
    experiment.

    ## Example
    ```python
    import torch

    def make_optimizer(model, lr, weight_decay=0.1):
        return torch.optim.AdamW(model.parameters(), lr=lr)
    ```

    Use instead:
    ```python
    import torch

    def make_optimizer(model, lr, weight_decay=0.1):
        return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    ```
    """

    code = "TL149"
    category = Category.SUSPICIOUS
    preview = True
    triggers = (_GRADIENTS, (b"def ",))

    def ask(self) -> Iterator[NotPassed]:
        for info in [] if self.model.is_test else self.model.definitions.functions.values():
            node = info.node
            if isinstance(node, ast.Lambda) or info.decorators or node.args.kwarg or self._may_override(info):
                continue  # `**options` shows that callers decide about the parameters
            unread = self._unread(info, node)
            for name in unread:
                calls = (item for item in python_ast.walk(node) if isinstance(item, ast.Call))
                takers = [call for call in calls if self._takes(call, name)]
                if len(takers) == 1 and not _passes(takers[0], name):
                    declared = next(item for item in definitions.all_parameters(node) if item.arg == name)
                    callee = self.model.tree.code(takers[0].func)
                    yield NotPassed(python_ast.site_of(takers[0]), name, callee, python_ast.site_of(declared))

    def _unread(self, info: definitions.FunctionInfo, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
        """The named parameters of a function that its body never mentions."""
        used = {item.id for item in python_ast.walk(node) if isinstance(item, ast.Name)}
        if callees.reads_by_text(node, self.model.definitions):
            return []
        own = info.parameters[1:] if info.is_method else info.parameters
        return [name for name in own if name not in used and name[0] != "_"]

    def _may_override(self, info: definitions.FunctionInfo) -> bool:
        """Whether another class may dictate the parameters of a method."""
        if info.owner is None or info.name == "__init__":
            return False
        bases = [item for item in info.owner.ancestors() if item is not info.owner]
        inherited = any(isinstance(item, definitions.ClassInfo) and info.name in item.methods for item in bases)
        plain = {"object", "torch.nn.Module", "torch.nn.modules.module.Module"}
        return inherited or any(isinstance(item, str) and item not in plain for item in bases)

    def _takes(self, call: ast.Call, name: str) -> bool:
        """Whether a call may receive an option, for which its callee has a default."""
        if any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords):
            return False
        qualified = self.model.definitions.named(call.func)
        if qualified.startswith("torch.optim.") and "lr_scheduler" not in qualified:
            return name in _OPTIMIZER_OPTIONS or qualified.rpartition(".")[2] in _OTHERS.get(name, ())
        callee = callees.callee(call, self.model.definitions)
        if callee is None or isinstance(callee.node, ast.Lambda) or name not in definitions.defaults_of(callee.node):
            return False
        return name not in callees.arguments(call, callee)

    def report_NotPassed(self, found: NotPassed) -> None:
        self.report(
            found.site,
            f"`{found.name}` has no effect: `{found.callee}` does not receive it and uses its default",
            related=[(found.declared, "the parameter is declared here")],
            help=f"pass `{found.name}={found.name}`",
        )


def _passes(call: ast.Call, name: str) -> bool:
    return any(item.arg == name for item in call.keywords)
