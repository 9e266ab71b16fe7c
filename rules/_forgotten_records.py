"""Resumes that continue the epochs of a training, but forget its best score, which the checkpoint contains."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

from ._forgotten_optimizers import ForgottenOptimizers, checkpoint_of

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_BEST = LazyPattern(r"(?i)best|record")


class ForgottenRecord(NamedTuple):
    """The checkpoint loaded at `site` contains the score `name`, saved at `saved`, but `start` starts it over."""

    site: Site
    name: str
    saved: Site
    start: Site


class ForgottenRecords:
    """Finds the best scores that a file saves and never reads."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree
        self.resumes = ForgottenOptimizers(model)

    def all(self) -> Iterator[ForgottenRecord]:
        for key, score in self._saved():
            name = python_ast.dotted(score)
            start = self._start(score, name)
            if start is None or self.model.reads_entry(key) or not self._is_updated(name):
                continue
            for call, _ in self.model.provenance.states.loads:
                loaded = checkpoint_of(call.args[0])
                if loaded is not None and self.resumes.is_loaded(loaded) and self.resumes.continued(loaded) is not None:
                    sites = (python_ast.site_of(item) for item in (score, start))
                    yield ForgottenRecord(python_ast.site_of(call), name, *sites)
                    return

    def _saved(self) -> Iterator[tuple[str, ast.expr]]:
        """The best scores in dictionaries with states, each with its key."""
        for node in self.tree.of_type(ast.Dict):
            calls = [item for item in node.values if isinstance(item, ast.Call)]
            if any(python_ast.called_name(call) == "state_dict" for call in calls):
                for key, value in zip(node.keys, node.values, strict=True):
                    text = key.value if isinstance(key, ast.Constant) else None
                    if isinstance(text, str) and _BEST.search(python_ast.dotted(value)):
                        yield text, value

    def _start(self, score: ast.expr, name: str) -> ast.Assign | None:
        """The only statement outside a loop that sets a score: to a number."""
        found = [
            node for node in self.tree.of_type(ast.Assign)
            if any(python_ast.dotted(item) == name for item in node.targets)
            and not any(isinstance(item, python_ast.LOOPS) for item in self.tree.ancestors(node))
            and ("." in name or self._scope(node) is self._scope(score))
        ]  # fmt: skip
        if len(found) != 1:
            return None
        value = found[0].value.operand if isinstance(found[0].value, ast.UnaryOp) else found[0].value
        is_infinite = isinstance(value, ast.Call) and python_ast.called_name(value) == "float"
        return found[0] if isinstance(value, ast.Constant) or is_infinite else None

    def _scope(self, node: ast.AST) -> object:
        return self.model.definitions.function_around(node)

    def _is_updated(self, name: str) -> bool:
        """Whether a comparison decides if a score is the best one so far."""
        compared = {
            python_ast.dotted(item)
            for node in self.tree.of_type(ast.Compare)
            if isinstance(node.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE))
            for item in (node.left, *node.comparators)
        }
        return name in compared
