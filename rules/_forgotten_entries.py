"""Entries of checkpoints that a file saves and a resume forgets: the optimizer and the best score."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import resumes
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_COMMENTED = LazyPattern(r"(?i)#.*optim\w*\.load_state_dict")
"""A restored optimizer that the author has commented out."""
_STATELESS = frozenset({"SGD"})
_BEST = LazyPattern(r"(?i)best|record")


class Forgotten(NamedTuple):
    """The model is loaded at `site` and `counter` continues, but the saved optimizer `name` is not restored."""

    site: Site
    name: str
    saved: Site
    counter: Site


class ForgottenRecord(NamedTuple):
    """The checkpoint loaded at `site` contains the score `name`, saved at `saved`, but `start` starts it over."""

    site: Site
    name: str
    saved: Site
    start: Site


class ForgottenOptimizers:
    """Finds the checkpoints of a file that continue the epochs without the optimizer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree
        self.states = model.provenance.states

    def all(self) -> Iterator[Forgotten]:
        saved = [item for item in self.states.saved if naming.looks_like_optimizer(python_ast.last_name(item))]
        if not saved or not any(map(self._matters, saved)) or self._may_be_restored(saved):
            return
        for call, _ in self.states.loads:
            counter = resumes.continued(call, self.model)
            if counter is not None:
                code = self.tree.code(saved[0])
                yield Forgotten(python_ast.site_of(call), code, python_ast.site_of(saved[0]), counter)
                return

    def _matters(self, optimizer: ast.expr) -> bool:
        """Whether an optimizer may have moments: all but SGD without momentum."""
        made = self.model.provenance.created(optimizer)
        if not isinstance(made, ast.Call) or python_ast.called_name(made) not in _STATELESS:
            return True
        return any(item.arg in ("momentum", None) for item in made.keywords)

    def _may_be_restored(self, saved: list[ast.expr]) -> bool:
        """Whether some code may load the state of an optimizer, or the author has removed that code."""
        owners = [owner for _, owner in self.states.loads]
        if any(not isinstance(item, (ast.Name, ast.Attribute)) for item in owners):
            return True
        if any(naming.looks_like_optimizer(python_ast.last_name(item)) for item in owners):
            return True
        if _COMMENTED.search(self.tree.source.text):
            return True
        keys = [self._key(item) for item in saved]
        return any(key is None or self.model.reads_entry(key) for key in keys)

    def _key(self, owner: ast.expr) -> str | None:
        """The key under which a dictionary keeps the state of an object."""
        _, state, parent, *_ = self.tree.ancestors(owner)
        if isinstance(parent, ast.keyword):
            return parent.arg
        key: ast.expr | None = None
        if isinstance(parent, ast.Dict):
            key = next(key for key, value in zip(parent.keys, parent.values, strict=True) if value is state)
        elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript):
            key = parent.targets[0].slice
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


class ForgottenRecords:
    """Finds the best scores that a file saves and never reads."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree

    def all(self) -> Iterator[ForgottenRecord]:
        for key, score in self._saved():
            name = python_ast.dotted(score)
            start = self._start(score, name)
            if start is None or self.model.reads_entry(key) or not self._is_updated(name):
                continue
            for call, _ in self.model.provenance.states.loads:
                if resumes.continued(call, self.model) is not None:
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
