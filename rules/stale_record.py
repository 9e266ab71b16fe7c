"""Best scores that a loop compares with, and never replaces."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import variables, written
from torchlint.syntax import python_ast

_RECORD = LazyPattern(r"(?i)(^|_)best(_|$)|best_?(acc|loss|metric|score|val)")
_KEEPING = LazyPattern(r"(?i)save|copy|state_dict|best")
_ORDERED = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


class Stale(NamedTuple):
    """The comparison at `site` always reads the first value of `name`, from `start`."""

    site: python_ast.Site
    name: str
    start: python_ast.Site


class StaleRecord(Rule):
    """A loop keeps what beats the best score, but never replaces the best score.

    ## What it does
    Finds comparisons with a best score in a loop that saves or copies something if the new score is better, where the
    best score only ever has its first value.

    Not reported where another function may set the score: a parameter, a global variable, or an attribute that any file
    assigns again.

    ## Why is this bad?
    Each score is compared with the start, such as 0 or infinity, and beats it. The program overwrites the file of the
    best model again and again, so the file ends up with the last model. Early stopping never counts an epoch without
    progress.

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
    triggers = ((b"torch",), (b"best", b"Best", b"BEST"), (b"if ",), (b"save", b"copy", b"state_dict"))

    def ask(self) -> Iterator[Stale]:
        for condition in [] if self.model.is_test else self.model.tree.of_type(ast.If):
            tests = condition.test.values if isinstance(condition.test, ast.BoolOp) else [condition.test]
            for test in tests:
                if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], _ORDERED):
                    continue
                for record, score in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
                    start = self._start(record, condition) if _varies(score) else None
                    if start is not None:
                        yield Stale(python_ast.site_of(test), python_ast.dotted(record), start)

    def _start(self, record: ast.expr, condition: ast.If) -> python_ast.Site | None:
        """The only value of a best score, if a loop that does not set it keeps what beats it."""
        if not isinstance(record, (ast.Name, ast.Attribute)) or not _RECORD.search(python_ast.last_name(record)):
            return None
        loops = [item for item in self._around(condition) if isinstance(item, python_ast.LOOPS)]
        is_kept = any(_KEEPING.search(self.model.tree.code(item)) for item in condition.body)
        if not is_kept or not (loops or isinstance(record, ast.Attribute)):
            return None
        stores = self._stores(record, condition)
        value = written.assigned(stores[0], self.model.definitions) if len(stores) == 1 else None
        if value is None or not _is_start(value) or any(loop in self.model.tree.ancestors(value) for loop in loops):
            return None
        return python_ast.site_of(stores[0])

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        for item in self.model.tree.ancestors(node):
            if isinstance(item, python_ast.SCOPES):
                return
            yield item

    def _stores(self, record: ast.Name | ast.Attribute, condition: ast.If) -> list[ast.expr]:
        """All assignments to a variable of the function, or to an attribute in any file; none if others may exist."""
        method = self.model.definitions.method_around(condition)
        if isinstance(record, ast.Attribute):
            is_own = method is not None and python_ast.dotted(record.value) in method.parameters[:1]
            stores = list(self.model.stores_of(record.attr)) if is_own else []
            return list(stores) if b"setattr" not in self.model.tree.source.code else []
        if variables.is_shared(record.id, self.model.definitions):
            return []
        if variables.is_parameter(record.id, condition, self.model.definitions):
            return []
        return list(variables.bindings(record.id, condition, self.model.definitions))

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


def _is_start(value: ast.expr) -> bool:
    """A number, or infinity."""
    if isinstance(value, ast.UnaryOp):
        return _is_start(value.operand)
    code = ast.unparse(value).lower()
    return (isinstance(value, ast.Constant) and isinstance(value.value, (int, float))) or "inf" in code
