"""Best weights that are saved, while the last ones are tested."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import records
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_TESTS = LazyPattern(r"(?i)test|eval")
_LAST = LazyPattern(r"(?i)(?:^|[^a-z])last(?:[^a-z]|$)")
_LOADING = LazyPattern(r"(?i)load|restore|best")


class LastTested(NamedTuple):
    """`name` is tested at `site` with its last weights; the best are saved at `save`."""

    site: Site
    name: str
    save: Site


class UnusedBestWeights(Rule):
    """The best weights are saved, but the last weights are tested.

    ## What it does
    Finds a loop that saves a network when its score beats the best one so far, and a test of the same network after
    the loop with no load in between.

    Not reported if code after the loop loads weights, or speaks of the last weights: `print("last epoch", score)`.

    ## Why is this bad?
    The reported result comes from the weights of the last epoch, which is often overfitted, and not from the saved
    weights.

    ## Example
    ```python
    import torch

    def run(model, train, evaluate, epochs, held, test):
        best = 0.0
        for epoch in range(epochs):
            train(model)
            score = evaluate(model, held)
            if score > best:
                best = score
                torch.save(model.state_dict(), "best.pt")
        return evaluate(model, test)
    ```

    Use instead:
    ```python
    import torch

    def run(model, train, evaluate, epochs, held, test):
        best = 0.0
        for epoch in range(epochs):
            train(model)
            score = evaluate(model, held)
            if score > best:
                best = score
                torch.save(model.state_dict(), "best.pt")
        model.load_state_dict(torch.load("best.pt"))
        return evaluate(model, test)
    ```
    """

    code = "TL326"
    category = Category.SUSPICIOUS
    triggers = ((b"torch",), (b"save",), (b"state_dict",))

    def ask(self) -> Iterator[LastTested]:
        for saved, _, save in self.model.provenance.files.saves if not self.model.is_test else ():
            networks = [
                value.func.value
                for _, value in self.model.provenance.files.entries(saved)
                if isinstance(value, ast.Call) and python_ast.called_name(value) == "state_dict"
                if isinstance(value.func, ast.Attribute)
            ]
            loop = self._scored_loop(save)
            tested = self._tested(loop, networks[0]) if loop is not None and networks else None
            if tested is not None:
                name = self.model.tree.code(networks[0])
                yield LastTested(python_ast.site_of(tested), name, python_ast.site_of(save))

    def _scored_loop(self, save: ast.AST) -> ast.stmt | None:
        """The outermost loop around a save that depends on a comparison with the best score so far."""
        compared, loop = False, None
        for item in self.model.tree.ancestors(save):
            if isinstance(item, python_ast.SCOPES):
                break
            if isinstance(item, ast.If):
                sides = {python_ast.dotted(found.record) for found in records.comparisons(item)}
                stored = (node for statement in item.body for node in python_ast.walk(statement))
                bound = {
                    python_ast.dotted(node) for node in stored if isinstance(getattr(node, "ctx", None), ast.Store)
                }
                compared = compared or bool((sides & bound) - {""})
            loop = item if isinstance(item, python_ast.LOOPS) else loop
        return loop if compared else None

    def _tested(self, loop: ast.stmt, network: ast.expr) -> ast.Call | None:
        """The first test of a network after a loop, with no load of other weights before or after it."""
        rest = list(self.model.tree.after(loop))
        if any(_LAST.search(self.model.tree.code(item)) for item in rest):
            return None
        calls = [item for statement in rest for item in python_ast.walk(statement) if isinstance(item, ast.Call)]
        if any(_LOADING.search(python_ast.called_name(item)) for item in calls):
            return None
        for statement in rest:
            for call in (item for item in python_ast.walk(statement) if isinstance(item, ast.Call)):
                name = python_ast.called_name(call)
                is_given = any(python_ast.written_alike(item, network) for item in python_ast.arguments(call))
                is_called = python_ast.written_alike(call.func, network)
                words = self.model.tree.code(statement)
                if (is_given and _TESTS.search(name)) or (is_called and _TESTS.search(words)):
                    return call
        return None

    def report_LastTested(self, found: LastTested) -> None:
        self.report(
            found.site,
            f"`{found.name}` is tested with the last epoch's weights: the best are saved but not loaded",
            related=[(found.save, "the best weights are saved here")],
            help="load the best weights before the test",
        )
