"""Scaled values that are divided by a scale of another iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.syntax.python_ast import LOOPS, SCOPES, site_of, walk, written_alike

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class NewScale(NamedTuple):
    """`site` divides a value, scaled at `scaled`, by a scale that `update` may have changed."""

    site: Site
    value: str
    scaled: Site
    update: Site


class ScaleAfterUpdate(Rule):
    """A scaled loss is divided by the scale that `update()` may have changed.

    ## What it does
    Finds `scaled_loss / scaler.get_scale()` where `scaled_loss` comes from `scaler.scale(...)`, and `scaler.update()`
    runs before `get_scale()`.

    ## Why is this bad?
    `update()` doubles the scale now and then, and halves it after infinite gradients. In these iterations the result
    is half or twice the true loss.

    ## Example
    ```python
    import torch

    def train_step(model, x, y, optimizer, scaler):
        optimizer.zero_grad()
        loss = scaler.scale((model(x) - y).pow(2).mean())
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item() / scaler.get_scale()
    ```

    Use instead:
    ```python
    import torch

    def train_step(model, x, y, optimizer, scaler):
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()
    ```

    ## References
    - [torch.amp.GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    code = "TL141"
    category = Category.CORRECTNESS
    triggers = ((b"get_scale",), (b"update",))

    def ask(self) -> Iterator[NewScale]:
        for call in FileIndex.of(self.model.tree).calls_named("get_scale") if not self.model.is_test else ():
            if not isinstance(call.func, ast.Attribute):
                continue
            update = self._before(call, call.func.value, "update")
            scope = self.model.tree.scope_around(call)
            for division, value in self._divided(call, scope) if update is not None else ():
                scaled = self._scaled(value, call.func.value, scope)
                if scaled is not None and update is not None and scaled.lineno < update.lineno:
                    yield NewScale(site_of(division), self.model.tree.code(value), site_of(scaled), site_of(update))

    def _before(self, call: ast.Call, scaler: ast.expr, method: str) -> ast.Call | None:
        """The call to a scaler's method in an earlier statement of the blocks around a call, in the same iteration."""
        for node in (call, *self.model.tree.ancestors(call)):
            if isinstance(node, (*LOOPS, *SCOPES)):
                return None
            for statement in self.model.tree.before(node) if isinstance(node, ast.stmt) else ():
                other = statement.value if isinstance(statement, ast.Expr) else None
                if _is_method(other, scaler, method) and isinstance(other, ast.Call):
                    return other
        return None

    def _divided(self, call: ast.Call, scope: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
        """The values divided by the result of a call, directly or through a variable, with the divisions."""
        parent = self.model.tree.parent(call)
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        for node in walk(scope):
            is_division = isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div)
            if not is_division or not isinstance(node, (ast.BinOp, ast.AugAssign)) or node.lineno < call.lineno:
                continue
            left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            if right is call or (target is not None and written_alike(right, target)):
                yield node, left

    def _scaled(self, value: ast.expr, scaler: ast.expr, scope: ast.AST) -> ast.Assign | None:
        """The statement that gives a divided variable its only value, if the scaler scales that."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
            value = value.func.value  # `loss` of `loss.detach().item()`
        assigned = [node for node in walk(scope) if isinstance(node, ast.Assign)]
        stores = [node for node in assigned if any(written_alike(target, value) for target in node.targets)]
        last = stores[-1] if stores else None
        return last if last is not None and _is_method(last.value, scaler, "scale") else None

    # -- report ----------------------------------------------------------------------------------------

    def report_NewScale(self, found: NewScale) -> None:
        self.report(
            found.site,
            f"`{found.value}` is divided by a scale that `update()` may have changed since the loss was scaled",
            related=[(found.scaled, "the loss is scaled here"), (found.update, "this changes the scale now and then")],
            help="take the loss before it is scaled, or call `get_scale()` before `update()`",
        )


def _is_method(node: ast.AST | None, owner: ast.expr, method: str) -> bool:
    """`owner.method(...)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != method:
        return False
    return written_alike(node.func.value, owner)
