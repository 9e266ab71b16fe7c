"""Best scores that no score can beat, because the comparison points in the wrong direction."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, records, scores, uses
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


class AlreadyRecord(NamedTuple):
    """The comparison at `site` is never true: `replaced` has just made the score the record `name`."""

    site: Site
    replaced: Site
    name: str


class RecordNeverBeaten(Rule):
    """The best score starts at a value that no score can beat.

    ## What it does
    Finds a best score that starts at infinity where only a greater score replaces it. Also finds one that starts at
    minus infinity, or a lowest loss that starts at 0, where only a smaller score replaces it. Also finds a second
    comparison `score > best` after the first one has set `best = score`, also in another method.

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
    triggers = ((b"torch",), (b"inf", b"Inf", b"1e", b"999999", b"= 0", b"best"), (b"if ",))

    def ask(self) -> Iterator[NeverBeaten | AlreadyRecord]:
        yield from never_beaten(self.model)
        yield from [] if self.model.is_test else _compared_again(self.model)

    def report_AlreadyRecord(self, found: AlreadyRecord) -> None:
        self.report(
            found.site,
            f"this is never true: code before it has set `{found.name}` to the same score",
            related=[(found.replaced, "the score becomes the best one here")],
            help=f"compare with the value that `{found.name}` had before, or join both conditions",
        )

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


def _stored_in(block: Iterable[ast.AST]) -> Iterator[ast.Name | ast.Attribute]:
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


def _compared_again(model: Model) -> Iterator[AlreadyRecord]:
    """The comparisons with a record that the same score has replaced before, in the function or in another method."""
    for condition in model.tree.of_type(ast.If):
        for found in records.comparisons(condition):
            is_strict = isinstance(found.test.ops[0], (ast.Lt, ast.Gt)) and isinstance(found.score, ast.Name)
            name = python_ast.dotted(found.record)
            if not is_strict or not name or not condition.body or isinstance(condition.test, ast.BoolOp):
                continue
            first = _replaced_before(found, condition, model) or _replaced_by_method(found, condition, model)
            if first is not None:
                yield AlreadyRecord(python_ast.site_of(found.test), python_ast.site_of(first), name)
                break


def _replaces(condition: ast.AST, found: records.Comparison, score: str) -> bool:
    """Whether a statement is `if score < record: record = score`, in the same direction, without other conditions."""
    if not isinstance(condition, ast.If) or isinstance(condition.test, ast.BoolOp):
        return False
    return any(
        python_ast.dotted(item.score) == score
        and python_ast.written_alike(item.record, found.record)
        and item.is_higher is found.is_higher
        and records.is_replaced(item, condition.body)
        for item in records.comparisons(condition)
    )


def _replaced_before(found: records.Comparison, condition: ast.If, model: Model) -> ast.AST | None:
    """The statement before a condition, in its block, that makes the score the record."""
    score = python_ast.dotted(found.score)
    for statement in reversed(model.tree.before(condition)):
        if _replaces(statement, found, score):
            return statement
        if {score, python_ast.dotted(found.record)} & {python_ast.dotted(item) for item in _stored_in([statement])}:
            return None
    return None


def _replaced_by_method(found: records.Comparison, condition: ast.If, model: Model) -> ast.AST | None:
    """The statement of another method that makes its result the record, where a caller passes that result on.

    `score = self.evaluate()`, then `self.stops(score)`: `evaluate` replaces the record, and `stops` compares.
    """
    method = model.definitions.method_around(condition)
    score = python_ast.dotted(found.score)
    body = method.node.body if method is not None else []
    is_own = isinstance(body, list) and condition in body
    if method is None or method.owner is None or score not in method.parameters or not is_own:
        return None
    calls = [item for item in python_ast.walk(method.owner.node) if isinstance(item, ast.Call)]
    passed = [item for item in calls if python_ast.dotted(item.func) == f"self.{method.name}"]
    if len(passed) != 1 or len(passed[0].args) != 1 or not isinstance(passed[0].args[0], ast.Name):
        return None
    for statement in reversed(model.tree.before(passed[0])):
        if not isinstance(statement, ast.Assign) or python_ast.dotted(statement.targets[0]) != passed[0].args[0].id:
            continue
        call = statement.value
        name = python_ast.dotted(call.func).removeprefix("self.") if isinstance(call, ast.Call) else ""
        maker = method.owner.methods.get(name)
        result = names.returned_value(maker) if maker is not None else None
        own = maker.node.body if maker is not None and isinstance(maker.node.body, list) else []
        return next((item for item in own if _replaces(item, found, python_ast.dotted(result))), None)
    return None
