"""Best scores that a loop compares with, and never replaces."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import records, uses, variables, written
from torchlint.syntax import python_ast

_RECORD = LazyPattern(r"(?i)(^|_)best(_|$)|best_?(acc|loss|metric|score|val)")
_EXTREME = LazyPattern(r"(?i)^(max|min)_(val(id)?_)?(acc(uracy)?|auc|loss|f1|score|metric|bleu|dice|m?iou|psnr|map)$")
"""Names of records that may also be limits, which do not start at 0 or infinity."""
_LARGE = 1000
_KEEPING = LazyPattern(r"(?i)save|copy|state_dict|best")
_READING = (ast.Compare, ast.FormattedValue, ast.keyword, ast.Dict, ast.BinOp)
"""Expressions that read a number, and cannot change it."""
_ORDERED = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


class Stale(NamedTuple):
    """The comparison at `site` always reads the first value of `name`, from `start`."""

    site: python_ast.Site
    name: str
    start: python_ast.Site


class StaleRecord(Rule):
    """A loop saves each model that beats the best score, but never updates the score.

    ## What it does
    Finds comparisons with a best score in a loop that saves or copies something if the new score is better, where the
    best score only ever has its first value.

    Not reported where another function may set the score: a parameter, a global variable, or an attribute that any file
    assigns again.

    ## Why is this bad?
    Each score is compared with the starting value, such as 0 or infinity, and beats it. The program overwrites the file
    of the best model again and again, so the file ends up with the last model. Early stopping never counts an epoch
    without progress.

    ## Example
    ```python
    import torch

    def fit(model, epochs, train, validate):
        best_accuracy = 0.0
        for epoch in range(epochs):
            train(model)
            accuracy = validate(model)
            if accuracy > best_accuracy:
                torch.save(model.state_dict(), "best.pt")
    ```

    Use instead:
    ```python
    import torch

    def fit(model, epochs, train, validate):
        best_accuracy = 0.0
        for epoch in range(epochs):
            train(model)
            accuracy = validate(model)
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                torch.save(model.state_dict(), "best.pt")
    ```
    """

    code = "TL645"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (b"best", b"Best", b"BEST", b"max_", b"min_"),
        (b"if ",),
        (b"save", b"copy", b"state_dict", b"best"),
    )

    def ask(self) -> Iterator[Stale]:
        for condition in [] if self.model.is_test else self.model.tree.of_type(ast.If):
            for found in records.comparisons(condition):
                start = self._start(found.record, condition) if _varies(found.score) else None
                if start is not None:
                    yield Stale(python_ast.site_of(found.test), python_ast.dotted(found.record), start)

    def _start(self, record: ast.expr, condition: ast.If) -> python_ast.Site | None:
        """The only value of a best score, if a loop that does not set it keeps what beats it."""
        name = python_ast.last_name(record)
        if not isinstance(record, (ast.Name, ast.Attribute)) or not (_RECORD.search(name) or _EXTREME.search(name)):
            return None
        loops = [item for item in self.model.tree.around(condition) if isinstance(item, python_ast.LOOPS)]
        is_kept = any(_KEEPING.search(self.model.tree.code(item)) or _sets_record(item) for item in condition.body)
        last = condition.body[-1]
        is_end = isinstance(last, ast.Break) or (bool(loops) and isinstance(last, ast.Return))
        if not is_kept or is_end or not (loops or isinstance(record, ast.Attribute)):
            return None
        stores = uses.stores(record, self.model) or []
        if len(stores) != 1 or any(loop in self.model.tree.ancestors(stores[0]) for loop in loops):
            return None
        value = written.assigned(stores[0], self.model.definitions)
        if value is None:
            return python_ast.site_of(stores[0]) if self._is_resumed(stores[0]) else None
        is_start = _is_start(value) and (_EXTREME.search(name) is None or _is_extreme(value, name))
        return python_ast.site_of(stores[0]) if is_start else None

    def _is_resumed(self, target: ast.expr) -> bool:
        """Whether a variable gets one of several results of a call, and the function only reads it as a number."""
        around = self.model.tree.parent(target)
        statement = self.model.tree.parent(around) if isinstance(around, ast.Tuple) else None
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            return False
        reads = variables.reads(target.id, target, self.model.definitions) if isinstance(target, ast.Name) else []
        return bool(reads) and all(isinstance(self.model.tree.parent(item), _READING) for item in reads)

    def report_Stale(self, found: Stale) -> None:
        self.report(
            found.site,
            f"`{found.name}` keeps its first value: each score is compared with that, not with the best one",
            related=[(found.start, "nothing else assigns it")],
            help=f"assign the new score to `{found.name}` where it is better",
        )


def _varies(score: ast.expr) -> bool:
    """Whether a score is computed: not a constant, and no count of epochs."""
    return not isinstance(score, ast.Constant) and not isinstance(score, ast.UnaryOp)


def _sets_record(statement: ast.stmt) -> bool:
    """Whether a statement keeps another number of the record: `self.max_step = step`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(python_ast.last_name(item).startswith(("max_", "min_")) for item in targets)


def _is_extreme(value: ast.expr, name: str) -> bool:
    """Whether a record starts at a value that each score beats: 0 for the highest, a large number for the lowest."""
    code = ast.unparse(value).lower()
    if name.lower().startswith("max"):
        return code.startswith("-") or (isinstance(value, ast.Constant) and not value.value)
    number = value.value if isinstance(value, ast.Constant) else None
    return "inf" in code or (isinstance(number, (int, float)) and number >= _LARGE)


def _is_start(value: ast.expr) -> bool:
    """A number, or infinity."""
    if isinstance(value, ast.UnaryOp):
        return _is_start(value.operand)
    code = ast.unparse(value).lower()
    return (isinstance(value, ast.Constant) and isinstance(value.value, (int, float))) or "inf" in code
