"""Code that runs only in training, or only in evaluation: under a condition on the mode, or called that way."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import FunctionInfo
from torchlint.model.queries import variables
from torchlint.syntax.python_ast import LEAVING, called_name, dotted, names_read, site_of, walk

if TYPE_CHECKING:
    from torchlint.model.model import Model

NAMES = LazyPattern(
    r"train|eval|infer|test|determin|mc(_|$)|monte|(^|[._])gen(_|$|erat)|(?<!down)(?<!up)sampl", re.IGNORECASE
)
"""Names of conditions and rates that depend on the mode."""
ON_PURPOSE = LazyPattern(
    r"MC(?![a-z])|(?i:(^|_)mc(_|$)|monte_?carlo|bayes|uncertain|augment|prenet|(^|_)train(ing)?(_|$)|(^|_)loss(es)?(_|$))"
)
"""Names of classes and methods that also drop in evaluation (the prenet of Tacotron), or only in training."""


class OneMode:
    """Answers about the methods of the modules of a file."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._guarded_callers: dict[FunctionInfo, bool] = {}
        self._reading: dict[FunctionInfo, bool] = {}
        """For each method, whether it reads the mode."""
        self._leaving: dict[FunctionInfo, int] = {}
        """For each method, the line of the first condition on the mode that leaves it; 0: none."""

    def runs_in_one(self, call: ast.AST, method: FunctionInfo) -> bool:
        """Whether a call runs in one mode only, or its method is called that way."""
        if self._is_guarded(call, method):
            return True
        if method not in self._guarded_callers:
            self._guarded_callers[method] = False  # meanwhile, for methods that call each other
            self._guarded_callers[method] = self._is_called_guarded(method) or self._is_layer_of_training(method)
        return self._guarded_callers[method]

    def _is_called_guarded(self, method: FunctionInfo) -> bool:
        """Whether its class calls a method, and only in one mode, or at construction."""
        own = {f"{name}.{method.name}" for name in method.parameters[:1]}
        nodes = walk(method.owner.node) if method.owner is not None else iter(())
        calls = [node for node in nodes if isinstance(node, ast.Call) and dotted(node.func) in own]
        around = self.model.definitions.method_around
        return bool(calls) and all(self._is_for_one_mode(call, around(call)) for call in calls)

    def _is_for_one_mode(self, call: ast.Call, method: FunctionInfo | None) -> bool:
        if method is None:
            return False
        return method.name == "__init__" or bool(ON_PURPOSE.search(method.name)) or self.runs_in_one(call, method)

    def _is_layer_of_training(self, method: FunctionInfo) -> bool:
        """Whether `forward` belongs to a module that its owners call in one mode only.

        The owners are in this file, or in files that import it.
        """
        if method.owner is None or method.name != "forward":
            return False
        files = [self.model.definitions, *self.model.importers(method.owner.name, (b"training",))]
        made = [
            dotted(target)
            for file in files
            for node in file.tree.of_type(ast.Assign)
            if isinstance(node.value, ast.Call) and called_name(node.value) == method.owner.name
            for target in node.targets
        ]
        calls = [(call, file) for file in files for call in file.tree.of_type(ast.Call) if dotted(call.func) in made]
        return bool(calls) and all(self._is_for_one_mode(call, file.method_around(call)) for call, file in calls)

    def _is_guarded(self, node: ast.AST, method: FunctionInfo) -> bool:
        """Whether a condition on the mode surrounds a node, or leaves the method before it."""
        tree, inner = self.model.tree, node
        for item in tree.ancestors(node):
            if (
                isinstance(item, (ast.If, ast.IfExp, ast.While))
                and inner is not item.test
                and self._is_about_mode(item.test, method)
            ):
                return True
            if isinstance(item, ast.Match) and self._is_about_mode(item.subject, method):
                return True
            if isinstance(item, ast.BoolOp) and any(self._is_about_mode(value, method) for value in item.values):
                return True
            if item is method.node:
                break
            inner = item
        if method not in self._leaving:
            nodes = (item for item in walk(method.node) if isinstance(item, (ast.If, ast.Assert)) and _leaves(item))
            tests = (item for item in nodes if self._is_about_mode(item.test, method))
            self._leaving[method] = min((item.lineno for item in tests), default=0)
        return 0 < self._leaving[method] < site_of(node).line

    def _is_about_mode(self, test: ast.expr, method: FunctionInfo) -> bool:
        """Whether a condition reads the mode: directly, through a local name, or through another method."""
        read = names_read(test) | self._read_by(test)
        methods = method.owner.methods if method.owner is not None else {}
        asked = [methods[last] for name in read if (last := name.rpartition(".")[2]) in methods and "." in name]
        return any(map(NAMES.search, read)) or any(map(self._reads_mode, asked))

    def _reads_mode(self, method: FunctionInfo) -> bool:
        if method not in self._reading:
            self._reading[method] = any(map(NAMES.search, names_read(method.node)))
        return self._reading[method]

    def _read_by(self, test: ast.expr) -> set[str]:
        """The names read by the values of the local names in a condition."""
        names = (name.id for name in walk(test) if isinstance(name, ast.Name))
        stores = (store for name in names for store in variables.bindings(name, test, self.model.definitions))
        assigned = [node for store in stores if isinstance(node := self.model.tree.parent(store), ast.Assign)]
        return {name for node in assigned for name in names_read(node.value)}


def _leaves(item: ast.If | ast.Assert) -> bool:
    """Whether a condition leaves the function, in one branch or where it is false."""
    if isinstance(item, ast.Assert):
        return True
    return any(isinstance(last, LEAVING) for last in (item.body[-1], *item.orelse[-1:]))
