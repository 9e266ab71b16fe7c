"""Tensors that code changes after their last use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CREATING = frozenset(
    "zeros ones full empty rand randn zeros_like ones_like clone gather sum mean max min argmax argmin add sub mul div "
    "exp log sigmoid softmax log_softmax relu tanh sqrt matmul mm bmm cat stack where clamp amax amin".split()
)
"""Functions and methods that return a new tensor, not a view."""
_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare)


class LateChange(NamedTuple):
    """The statement at `site` changes elements of `name`, which nothing reads afterwards; `use` is the last use."""

    site: Site
    use: Site
    name: str


class ChangeAfterUse(Rule):
    """A tensor is changed after its last use, so the change has no effect.

    ## What it does
    Finds assignments to elements of a tensor, `values[done] = 0.0`, after which no code reads the tensor. Reported only
    if the function computes the tensor itself, other code has no reference to it, and the function has used it before.

    ## Why is this bad?
    The statement has no effect. Usually it is too late: the target of a Q-network is already computed when the values
    of final states are set to 0, so the network learns from states after the end of the episode.

    ## Example
    ```python
    import torch

    def target(net, states, rewards, done):
        values = net(states).max(dim=1)[0]
        result = rewards + 0.99 * values
        values[done] = 0.0
        return result
    ```

    Use instead:
    ```python
    import torch

    def target(net, states, rewards, done):
        values = net(states).max(dim=1)[0]
        values[done] = 0.0
        return rewards + 0.99 * values
    ```
    """

    code = "TL553"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"] = ", b"]="))

    def ask(self) -> Iterator[LateChange]:
        for statement in [] if self.model.is_test else self.model.tree.of_type(ast.Assign):
            target = statement.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and len(statement.targets) == 1:
                use = self._last_use(target.value)
                if use is not None:
                    yield LateChange(python_ast.site_of(statement), python_ast.site_of(use), target.value.id)

    def _last_use(self, name: ast.Name) -> ast.Name | None:
        """The last use of a tensor that only this function has, if nothing reads the tensor after its change."""
        function, known = self.model.definitions.function_around(name), self.model.definitions
        value = names.only_value(name, known) if function is not None else None
        if value is None or function is None or not _is_new(value) or names.is_read_after(name.id, name, known):
            return None
        own = [item for item in python_ast.walk(function.node) if isinstance(item, ast.Name) and item.id == name.id]
        reads = [item for item in own if isinstance(item.ctx, ast.Load) and item is not name]
        uses = [item for item in reads if not self._is_changed(item)]
        is_local = all(known.function_around(item) is function for item in own)
        is_kept = any(not isinstance(self.model.tree.parent(item), _OPERATIONS) for item in uses)
        return uses[-1] if uses and is_local and not is_kept and uses[-1].lineno < name.lineno else None

    def _is_changed(self, name: ast.Name) -> bool:
        """Whether an expression only sets elements: `values[done] = 0.0`."""
        around = self.model.tree.parent(name)
        return isinstance(around, ast.Subscript) and around.value is name and not isinstance(around.ctx, ast.Load)

    def report_LateChange(self, found: LateChange) -> None:
        self.report(
            found.site,
            f"nothing reads `{found.name}` after this change, so the change has no effect",
            related=[(found.use, "its last use is here")],
            help="change it before its use",
        )


def _is_new(value: ast.expr) -> bool:
    """Whether an expression creates a tensor that shares no memory with another one."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and value.slice.value == 0:
        value = value.value  # the values of `x.max(1)[0]`
        return (
            isinstance(value, ast.Call)
            and python_ast.called_name(value) in ("max", "min")
            and bool(value.args or value.keywords)
        )
    if isinstance(value, ast.Attribute) and value.attr == "values":
        return _is_new(ast.Subscript(value.value, ast.Constant(0), ast.Load()))
    if isinstance(value, ast.BinOp):
        return True
    return isinstance(value, ast.Call) and python_ast.called_name(value) in _CREATING
