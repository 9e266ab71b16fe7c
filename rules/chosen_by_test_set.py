"""Best epochs that the score of the test set chooses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import batch_sums, records, variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_TEST = LazyPattern(r"(?i)(^|_)test_?(_|$|set|data|loader|dl|iter|gen|queue|ds)")
_VALIDATION = LazyPattern(r"(?i)(^|_)(val|valid|validation|dev)_?(_|$|set|data|loader|dl|iter|gen|queue|ds)")
_DATA = LazyPattern(r"(?i)load|data|set$|_dl$|_iter|_gen|_ds$|queue")
_SAVING = LazyPattern(r"(?i)save|checkpoint|state_dict|deepcopy")
_TRAINING = LazyPattern(r"(?i)(^|_)(train|fit|backward)")


class Chosen(NamedTuple):
    """The comparison at `site` chooses weights by `score`, which `test_data` at `source` give."""

    site: Site
    source: Site
    score: str
    test_data: str
    validation: str
    """The validation data beside it; empty if the program has none there."""


class ChosenByTestSet(Rule):
    """The score of the test set chooses the best epoch.

    ## What it does
    Finds loops over epochs that save the weights if a score of the test data is the best so far, in functions that also
    have validation data. If there are no validation data, the finding needs `--preview`.

    ## Why is this bad?
    The best test score of many epochs is higher than the score that the model reaches on new data. So results look
    better than they are, most of all for small test sets and noisy training.

    ## Example
    ```python
    import torch

    def fit(model, train_loader, val_loader, test_loader, train, evaluate, epochs):
        best = 0.0
        for epoch in range(epochs):
            train(model, train_loader)
            print(evaluate(model, val_loader))
            accuracy = evaluate(model, test_loader)
            if accuracy > best:
                best = accuracy
                torch.save(model.state_dict(), "best.pt")
    ```

    Use instead:
    ```python
    import torch

    def fit(model, train_loader, val_loader, test_loader, train, evaluate, epochs):
        best = 0.0
        for epoch in range(epochs):
            train(model, train_loader)
            accuracy = evaluate(model, val_loader)
            if accuracy > best:
                best = accuracy
                torch.save(model.state_dict(), "best.pt")
        model.load_state_dict(torch.load("best.pt"))
        print(evaluate(model, test_loader))
    ```
    """

    code = "TL656"
    category = Category.SUSPICIOUS
    triggers = ((b"test",), (b"torch",), (b"save", b"state_dict", b"deepcopy"), (b"best", b"max", b"min"))

    def ask(self) -> Iterator[Chosen]:
        for condition in self.model.tree.of_type(ast.If) if not self.model.is_test else ():
            loop = self.model.tree.loop_around(condition)
            if loop is None or not _saves(condition) or not _trains(loop):
                continue
            for found in records.comparisons(condition):
                source = self._source(found.score, loop) if records.is_replaced(found, condition.body) else None
                if source is not None:
                    sites = python_ast.site_of(found.test), python_ast.site_of(source[0])
                    score = self.model.tree.code(found.score)
                    yield Chosen(sites[0], sites[1], score, source[1], self._validation(condition))
                    break

    def _source(self, score: ast.expr, loop: ast.For | ast.AsyncFor | ast.While) -> tuple[ast.AST, str] | None:
        """The code that computes a score in a loop, and the test data that it gets."""
        named = batch_sums.tensor_of(score)
        name = named.id if isinstance(named, ast.Name) else ""
        bound = list(variables.bindings(name, named, self.model.definitions)) if name else []
        own = [item for item in bound if loop in self.model.tree.ancestors(item)]
        statement = self.model.tree.statement(own[0]) if len(own) == 1 else None
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call):
            return None
        given = [python_ast.dotted(item) for item in python_ast.arguments(call)]
        data = [item for item in given if _DATA.search(item.rpartition(".")[2])]
        tests = [item for item in data if _is_test(item)]
        return (call, tests[0]) if len(tests) == len(data) == 1 else None

    def _validation(self, condition: ast.If) -> str:
        """The validation data that the function of a condition, or its object, has."""
        scope = self.model.tree.scope_around(condition)
        nodes = (item for item in python_ast.walk(scope) if isinstance(item, (ast.Name, ast.Attribute, ast.arg)))
        names = (item.arg if isinstance(item, ast.arg) else python_ast.dotted(item) for item in nodes)
        return next((item for item in names if _is_validation(item)), "")

    def report_Chosen(self, found: Chosen) -> None:
        self.report(
            found.site,
            f"`{found.score}` is a score of `{found.test_data}`, and it chooses the weights that are saved",
            related=[(found.source, "the test data give the score")],
            help=f"choose by `{found.validation or 'a part of the training data'}`, and test the weights at the end",
            confidence=Confidence.MEDIUM if found.validation else Confidence.LOW,
        )


def _is_test(name: str) -> bool:
    last = name.rpartition(".")[2]
    return bool(_TEST.search(last)) and not _VALIDATION.search(last) and not _TRAINING.search(last)


def _is_validation(name: str) -> bool:
    last = name.rpartition(".")[2]
    return bool(_VALIDATION.search(last) and _DATA.search(last)) and not _TEST.search(last)


def _saves(condition: ast.If) -> bool:
    """Whether the branch of a new record keeps the weights."""
    nodes = [node for statement in condition.body for node in python_ast.walk(statement)]
    called = (python_ast.called_name(node) for node in nodes if isinstance(node, ast.Call))
    return any(_SAVING.search(name) for name in called)


def _trains(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    calls = (node for node in python_ast.walk(loop) if isinstance(node, ast.Call))
    return any(_TRAINING.search(python_ast.called_name(call)) for call in calls)
