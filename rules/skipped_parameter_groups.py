"""Loops over parameter groups that change one group only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.syntax import python_ast

_GROUPS = "param_groups"


class OneGroup(NamedTuple):
    """The store at `site` changes one group in each iteration of `loop`, or (`is_behind`) once after it."""

    site: python_ast.Site
    loop: python_ast.Site
    target: str
    is_behind: bool


class SkippedParameterGroups(Rule):
    """A loop over an optimizer's parameter groups changes only one of them.

    ## What it does
    Finds assignments such as `group["lr"] = rate` that follow a loop over `optimizer.param_groups` instead of being
    inside it. Also finds loops whose statements all change the same group, `param_groups[0]`, and do not use the loop's
    variable.

    ## Why is this bad?
    Only one group receives the new learning rate. The other groups keep their first rate, so a part of the network
    trains without the warm-up or the decay. Nothing raises, and logs usually show the rate of the first group.

    ## Example
    ```python
    import torch

    def set_rate(optimizer: torch.optim.Optimizer, rate, rates):
        for group in optimizer.param_groups:
            rates.append(rate)
        group["lr"] = rate
    ```

    Use instead:
    ```python
    import torch

    def set_rate(optimizer: torch.optim.Optimizer, rate, rates):
        for group in optimizer.param_groups:
            rates.append(rate)
            group["lr"] = rate
    ```

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options): "Per-parameter options"
    """

    code = "TL144"
    category = Category.CORRECTNESS
    triggers = ((b"param_groups",), (b"for ",))

    def ask(self) -> Iterator[OneGroup]:
        for loop in self.model.tree.of_type(ast.For) if not self.model.is_test else ():
            counters = python_ast.names_in(loop.target)
            if all(map(_sets_constant_group, loop.body)) and not any(
                counters & python_ast.names_in(statement) for statement in loop.body
            ):
                yield self._answer(loop.body[0], loop, is_behind=False)
            elif isinstance(loop.target, ast.Name) and _is_over_groups(loop.iter):
                yield from self._behind(loop, loop.target.id)

    def _behind(self, loop: ast.For, name: str) -> Iterator[OneGroup]:
        """Stores into the last group, in the statements right after a loop that changes no group itself."""
        inside = [node for statement in loop.body for node in python_ast.walk(statement)]
        if any(_stores_into(node, name) or isinstance(node, (ast.Break, ast.Return)) for node in inside):
            return  # or a search for one group
        for statement in self.model.tree.after(loop):
            if any(_binds(node, name) for node in python_ast.walk(statement)):
                return
            if isinstance(statement, (ast.Assign, ast.AugAssign)) and _stores_into(_target(statement), name):
                yield self._answer(statement, loop, is_behind=True)
                return

    def _answer(self, statement: ast.stmt, loop: ast.For, *, is_behind: bool) -> OneGroup:
        target = _target(statement)
        assert target is not None
        site = python_ast.site_of(target)
        return OneGroup(site, python_ast.site_of(loop), self.model.tree.code(target), is_behind)

    def report_OneGroup(self, found: OneGroup) -> None:
        if found.is_behind:
            message = f"this line is after the loop, so it sets `{found.target}` only for the last parameter group"
            advice = "indent the line: it belongs in the loop"
        else:
            message = f"each iteration sets the same `{found.target}`, so other parameter groups do not change"
            advice = "use the variable of the loop as the index"
        self.report(found.site, message, related=[(found.loop, "the loop")], help=advice)


def _target(statement: ast.stmt) -> ast.expr | None:
    if isinstance(statement, ast.Assign):
        return statement.targets[0]
    return statement.target if isinstance(statement, ast.AugAssign) else None


def _sets_constant_group(statement: ast.stmt) -> bool:
    """`optimizer.param_groups[0]["lr"] = rate`."""
    target = _target(statement)
    group = target.value if isinstance(statement, ast.Assign) and isinstance(target, ast.Subscript) else None
    is_constant = isinstance(group, ast.Subscript) and isinstance(group.slice, ast.Constant)
    return is_constant and isinstance(group, ast.Subscript) and python_ast.last_name(group.value) == _GROUPS


def _is_over_groups(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _GROUPS


def _stores_into(node: ast.AST | None, name: str) -> bool:
    """`group["lr"] = rate` of a variable."""
    is_store = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return is_store and isinstance(node, ast.Subscript) and python_ast.dotted(node.value) == name


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
