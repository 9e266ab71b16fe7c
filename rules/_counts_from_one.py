"""Counts of batches or samples that start at 1."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.queries import batch_sums, loop_results, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site


class FromOne(NamedTuple):
    """`total` is divided at `site` by `counter`, which starts at 1, at `start`, and grows with each addition."""

    site: Site
    start: Site
    total: str
    counter: str


def of_model(model: Model) -> Iterator[FromOne]:
    """The divisions of a sum by a count that starts at 1, though the sum starts at 0."""
    for loop in model.tree.of_type(ast.For):
        added = [
            item
            for item in loop_results.each_iteration(loop.body)
            if isinstance(item, ast.AugAssign) and isinstance(item.op, ast.Add) and isinstance(item.target, ast.Name)
        ]
        if len(added) > 1:
            yield from _of_loop(loop, {python_ast.dotted(item.target): item for item in added}, model)


def _of_loop(loop: ast.For, added: dict[str, ast.AugAssign], model: Model) -> Iterator[FromOne]:
    scope = model.tree.scope_around(loop)
    nodes = list(names.own_nodes(scope))
    for division in nodes:
        if not isinstance(division, (ast.BinOp, ast.AugAssign)) or not isinstance(division.op, ast.Div):
            continue
        divisor = division.right if isinstance(division, ast.BinOp) else division.value
        total, count = batch_sums.dividend(division), python_ast.dotted(divisor)
        if division.lineno <= (loop.end_lineno or 0) or total == count or not {total, count} <= added.keys():
            continue
        first, last = sorted((added[total], added[count]), key=lambda item: item.lineno)
        between = (item for item in nodes if isinstance(item, (ast.Continue, ast.Break)))
        if any(first.lineno < item.lineno < last.lineno for item in between):
            continue
        starts = [_start(name, added[name], loop, division, model) for name in (total, count)]
        if starts[1] is not None and _is_number(starts[1], 1) and starts[0] is not None:
            if _is_zero(starts[0]) and _counts(added[count].value):
                yield FromOne(python_ast.site_of(division), python_ast.site_of(starts[1]), total, count)


def _start(
    name: str, addition: ast.AugAssign, loop: ast.For, division: ast.expr | ast.stmt, model: Model
) -> ast.expr | None:
    """The only value of a variable before a loop, set in the loop's block, if only the addition changes it there."""
    before, scope = list(model.tree.before(loop)), model.tree.scope_around(loop)
    end = division.lineno
    found: list[ast.expr | None] = []
    for node in python_ast.walk(scope):
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Load):
            continue
        statement = model.tree.statement(node)
        if statement is addition or node.lineno >= end:
            continue
        if statement not in before:
            return None
        found.append(written.assigned(node, model.definitions))
    return found[0] if len(found) == 1 else None


def _counts(added: ast.expr) -> bool:
    """Whether an addition counts a batch or its samples."""
    return _is_number(added, 1) or batch_sums.is_batch_size(added)


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == number


def _is_zero(node: ast.expr) -> bool:
    """Whether an expression is 0: `0.0`, `torch.tensor(0.0).to(device)`, `torch.zeros(1)`."""
    node = python_ast.without_calls(node, ("to", "cuda"))
    if isinstance(node, ast.Call):
        name = python_ast.called_name(node)
        return name == "zeros" or (name == "tensor" and len(node.args) == 1 and _is_number(node.args[0], 0))
    return _is_number(node, 0)
