"""Best scores that no score can beat, because the comparison points in the wrong direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import records, scores, uses
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_INFINITE = LazyPattern(
    r"""^(?:float\(\s*["']\+?inf(?:inity)?["']\s*\)|(?:np|numpy|math|torch)\.(?:inf|Inf|Infinity)"""
    r"""|1e\d\d+|9{6,}(?:\.0?)?)$"""
)
_MAY_BE_NEGATIVE = LazyPattern(r"(?i)nll|elbo|neg|log|policy|actor|critic|agent|gen|disc|total")
"""Names of losses that may be below zero."""
_ZERO = frozenset({"0", "0.0"})
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.LtE, ast.LtE: ast.GtE}


class NeverBeaten(NamedTuple):
    """The comparison at `site` is never true, because the record `name` starts at `start`."""

    site: Site
    start: Site
    name: str
    start_code: str


class RecordNeverBeaten(Rule):
    """The best score starts at a value that no score can beat.

    ## What it does
    Finds a best score that starts at infinity where only a greater score replaces it. Also finds one that starts at
    minus infinity, or a lowest loss that starts at 0, where only a smaller score replaces it.

    ## Why is this bad?
    The comparison is never true. The program never saves the best model, and may later load an older file instead.
    Early stopping counts every epoch as one without progress.

    ## Example
    ```python
    import torch

    def fit(model, epochs, train, validate):
        best_loss = float("inf")
        for epoch in range(epochs):
            train(model)
            loss = validate(model)
            if loss > best_loss:
                best_loss = loss
                torch.save(model.state_dict(), "best.pt")
    ```

    Use instead:
    ```python
    import torch

    def fit(model, epochs, train, validate):
        best_loss = float("inf")
        for epoch in range(epochs):
            train(model)
            loss = validate(model)
            if loss < best_loss:
                best_loss = loss
                torch.save(model.state_dict(), "best.pt")
    ```
    """

    code = "TL624"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"inf", b"Inf", b"1e", b"999999", b"= 0"), (b"if ",))

    def ask(self) -> Iterator[NeverBeaten]:
        yield from never_beaten(self.model)

    def report_NeverBeaten(self, found: NeverBeaten) -> None:
        start = "infinity" if found.start_code in _ZERO or "-" in found.start_code else "minus infinity"
        self.report(
            found.site,
            f"no score can beat `{found.name}`, which starts at `{found.start_code}`: this condition is never true",
            related=[(found.start, "the best score starts here")],
            help=f"reverse the comparison, or start at {start}",
        )


def never_beaten(model: Model) -> Iterator[NeverBeaten]:
    """The comparisons with a best score that are never true."""
    for condition in [] if model.is_test else model.tree.of_type(ast.If):
        if isinstance(condition.test, ast.BoolOp) and isinstance(condition.test.op, ast.Or):
            continue
        for found in records.comparisons(condition):
            start = _start(model, found.record, found.score, condition)
            if start is not None and _is_highest(start, found.score) is found.is_higher:
                sites = python_ast.site_of(found.test), python_ast.site_of(start)
                yield NeverBeaten(*sites, python_ast.dotted(found.record), model.tree.code(start))


def _start(model: Model, record: ast.expr, score: ast.expr, condition: ast.If) -> ast.expr | None:
    """The only value at which a record starts, if only an assignment under a condition changes it."""
    replaced = {python_ast.dotted(item) for item in _stored_in(condition.body)}
    if isinstance(score, ast.Constant) or python_ast.dotted(record) not in replaced:
        return None  # before other files are read
    stores, starts = uses.stores(record, model) or [], []
    for node in stores:
        value = model.tree.assigned_to(node)
        if value is None:
            return None
        if any(node is item for part in condition.body for item in python_ast.walk(part)):
            if not python_ast.written_alike(value, score):
                return None
        else:
            starts.append(value)
    return starts[0] if len(stores) > len(starts) == 1 else None


def _stored_in(block: list[ast.stmt]) -> Iterator[ast.Name | ast.Attribute]:
    """The variables and attributes that a block sets."""
    for item in (node for statement in block for node in python_ast.walk(statement)):
        if isinstance(item, (ast.Name, ast.Attribute)) and isinstance(item.ctx, ast.Store):
            yield item


def _is_highest(node: ast.expr, score: ast.expr) -> bool | None:
    """Whether a score starts at its highest (True) or lowest number (False); None for any number between them.

    Infinity is the highest number of all scores, and zero is the lowest number of losses and error rates.
    """
    is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    code = ast.unparse(node.operand if isinstance(node, ast.UnaryOp) else node)
    if isinstance(node, ast.Call) and code.replace('"', "'") in ("float('-inf')", "float('-infinity')"):
        return False
    if code == "inf" or _INFINITE.search(code):
        return not is_negative
    name = python_ast.last_name(score)
    is_error = scores.better_by_name(name) is scores.Better.LOWER and not _MAY_BE_NEGATIVE.search(name)
    return False if code in _ZERO and is_error else None
