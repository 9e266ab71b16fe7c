"""Checkpoints of the best model that the last model overwrites."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, records
from torchlint.syntax import python_ast

_BETTER = LazyPattern(r"(?i)best|(^|_|\.)(min|max|lowest|highest)_")
_LOADING = LazyPattern(r"(?i)load|copy|move|rename|restore|swap|shadow|store|log_model|artifact")
"""Calls that may restore the best weights, or keep the file elsewhere."""
_ORDERED = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


class Overwritten(NamedTuple):
    """The call at `site` saves to the path that the best model has, from the call at `best`."""

    site: python_ast.Site
    best: python_ast.Site
    path: str
    is_after: bool


class OverwrittenBest(Rule):
    """The last weights overwrite the file of the best weights.

    ## What it does
    Finds two calls of `torch.save` in one function that save the weights of one model to one path. The first call is
    in a loop, under a comparison with the best score. The second call has no condition, and is in the same loop or
    after it.

    ## Why is this bad?
    The file holds the last weights, which may be overfitted. The weights with the best score are lost.

    ## Example
    ```python
    import torch

    def fit(model, epochs, train, validate):
        best = 0.0
        for epoch in range(epochs):
            train(model)
            score = validate(model)
            if score > best:
                best = score
                torch.save(model.state_dict(), "model.pt")
        torch.save(model.state_dict(), "model.pt")
    ```

    Use instead:
    ```python
    import torch

    def fit(model, epochs, train, validate):
        best = 0.0
        for epoch in range(epochs):
            train(model)
            score = validate(model)
            if score > best:
                best = score
                torch.save(model.state_dict(), "best.pt")
        torch.save(model.state_dict(), "last.pt")
    ```
    """

    code = "TL348"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"save",), (b"best", b"Best", b"min_", b"max_"), (b"for ", b"while "))

    def ask(self) -> Iterator[Overwritten]:
        saves = [call for call in self.model.tree.of_type(ast.Call) if self._is_save(call)]
        for best in [] if self.model.is_test or len(saves) < 2 else saves:
            branch = self._branch(best)
            loop = self.model.tree.loop_around(branch) if branch is not None else None
            if loop is None or branch is None:
                continue
            for other in saves:
                if (
                    other is not best
                    and self._is_same(best, other)
                    and self.model.tree.scope_around(best) is self.model.tree.scope_around(other)
                ):
                    is_after = self._is_behind(other, loop)
                    if (is_after or self._is_each(other, branch, loop)) and not self._is_loaded(best, loop, other):
                        sites = python_ast.site_of(other), python_ast.site_of(best)
                        yield Overwritten(*sites, ast.unparse(best.args[1]), is_after)
                        break

    def _is_save(self, call: ast.Call) -> bool:
        return len(call.args) == 2 and names.imported(call.func, self.model.definitions) == "torch.save"

    def _is_same(self, best: ast.Call, other: ast.Call) -> bool:
        """Whether two calls save to one path, which no variable of the loop or of the score decides."""
        return all(ast.dump(own) == ast.dump(given) for own, given in zip(best.args, other.args, strict=True))

    def _branch(self, call: ast.Call) -> ast.If | None:
        """The condition around a call that compares a score with the best one."""
        for item in self.model.tree.ancestors(call):
            if isinstance(item, ast.If) and isinstance(item.test, ast.Compare):
                if any(_is_record(found.record) for found in records.comparisons(item)):
                    is_body = any(call in python_ast.walk(statement) for statement in item.body)
                    return item if is_body else None
            if isinstance(item, (*python_ast.LOOPS, *python_ast.SCOPES)):
                return None
        return None

    def _is_behind(self, call: ast.Call, loop: ast.AST) -> bool:
        """Whether a call runs after a loop, without a condition, with the names of the path unchanged."""
        return self.model.tree.statement(call) in self.model.tree.after(loop)

    def _is_each(self, call: ast.Call, branch: ast.If, loop: ast.AST) -> bool:
        """Whether each iteration makes a call after the condition."""
        statement = self.model.tree.statement(call)
        return statement in self.model.tree.after(branch) and self.model.tree.parent(statement) is loop

    def _is_loaded(self, best: ast.Call, loop: ast.AST, other: ast.Call) -> bool:
        """Whether code may restore the best weights, or change the path, between the two calls."""
        used = {item.id for item in python_ast.walk(best.args[1]) if isinstance(item, ast.Name)}
        for node in python_ast.walk(self.model.tree.scope_around(best)):
            line = getattr(node, "lineno", 0)
            if not best.lineno < line < other.lineno:
                continue
            if isinstance(node, ast.Name) and node.id in used and not isinstance(node.ctx, ast.Load):
                return True
            if isinstance(node, ast.Call) and _LOADING.search(python_ast.called_name(node)):
                return True
        return False

    def report_Overwritten(self, found: Overwritten) -> None:
        last = "the last weights" if found.is_after else "the weights of each epoch"
        self.report(
            found.site,
            f"{last} overwrite the best ones in `{found.path}`",
            related=[(found.best, "the best weights are saved here")],
            help="save the last weights to another file",
        )


def _is_record(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and bool(_BETTER.search(ast.unparse(node)))
