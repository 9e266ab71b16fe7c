"""Predicted classes and best values, as the code computes them: `x.argmax(1)`, `x.max(1)[1]`, `x > 0.5`."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions
from torchlint.model.queries import numbers, variables
from torchlint.syntax import python_ast

_KEEPING = frozenset(
    "array asarray concatenate hstack stack cat list cpu numpy detach tolist item ravel flatten reshape view squeeze"
    " astype long int float to append extend tensor".split()
)
"""Calls after which classes are still classes."""
_PICKING = frozenset({"argmax", "round", "rint"})
_LIBRARIES = frozenset({"np", "numpy", "torch"})
_DEPTH = 6


class PredictedClasses:
    """Answers about expressions of a file. It follows the variables and lists of the function."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._tree = definitions.tree

    def are_classes(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression surely holds predicted classes."""
        if isinstance(node, ast.Compare):
            return isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE)) and not _is_of_labels(node)
        if isinstance(node, ast.Attribute):
            return node.attr == "indices" and is_maximum(node.value)
        if isinstance(node, ast.Subscript):
            return is_maximum(node.value) and numbers.literal(node.slice) == 1
        if isinstance(node, ast.Call):
            return self._is_class_call(node, depth)
        return isinstance(node, ast.Name) and depth > 0 and self._is_class_variable(node, depth - 1)

    def _is_class_call(self, call: ast.Call, depth: int) -> bool:
        name = python_ast.called_name(call)
        if name in _PICKING:
            return True
        if name not in _KEEPING:
            return False
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_of_library = isinstance(inner, ast.Name) and inner.id in _LIBRARIES
        operand = inner if inner is not None and not is_of_library else next(iter(call.args), None)
        return operand is not None and self.are_classes(operand, depth)

    def _is_class_variable(self, name: ast.Name, depth: int) -> bool:
        """Whether all that a variable gets are classes; for a list, all that it collects."""
        bound = variables.bindings(name.id, name, self._definitions)
        sources = [self._source(item) for item in bound if not self._is_empty(item)]
        sources += self._collected(name)
        is_own = not variables.is_parameter(name.id, name, self._definitions)
        return is_own and bool(sources) and all(item is not None and self.are_classes(item, depth) for item in sources)

    def _is_empty(self, target: ast.Name) -> bool:
        value = self._tree.assigned_to(target)
        is_call = isinstance(value, ast.Call) and not value.keywords
        is_new = (
            is_call and isinstance(value, ast.Call) and python_ast.called_name(value) in ("list", "array", "tensor")
        )
        parts = value.args if is_new and isinstance(value, ast.Call) else [value]
        return not parts or (len(parts) == 1 and isinstance(parts[0], ast.List) and not parts[0].elts)

    def _source(self, target: ast.Name) -> ast.expr | None:
        """The value of a variable; for the second one of `best, classes = x.max(1)`, its indices."""
        parent = self._tree.parent(target)
        outer = self._tree.parent(parent) if isinstance(parent, ast.Tuple) else None
        if isinstance(parent, ast.Tuple) and isinstance(outer, ast.Assign) and is_maximum(outer.value):
            is_second = len(parent.elts) == 2 and parent.elts[1] is target
            return ast.Attribute(outer.value, "indices", ast.Load()) if is_second else None
        if isinstance(parent, ast.AugAssign):
            return parent.value
        return self._tree.assigned_to(target)

    def _collected(self, name: ast.Name) -> list[ast.expr]:
        """The values that `append` and `extend` add to a list."""
        found = []
        for item in variables.reads(name.id, name, self._definitions):
            method = self._tree.parent(item)
            call = self._tree.parent(method) if isinstance(method, ast.Attribute) else None
            if isinstance(method, ast.Attribute) and method.attr in ("append", "extend") and isinstance(call, ast.Call):
                found += call.args
        return found

    def is_best_value(self, node: ast.expr, depth: int = _DEPTH) -> ast.Call | None:
        """The maximum whose values an expression holds: `x.max(1)[0]`, or the first of `best, classes = x.max(1)`."""
        if isinstance(node, ast.Attribute) and node.attr == "values":
            return _maximum(node.value)
        if isinstance(node, ast.Subscript):
            return _maximum(node.value) if numbers.literal(node.slice) == 0 else None
        if depth == 0:
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING:
            return self.is_best_value(node.func.value, depth - 1)
        bound = variables.bindings(node.id, node, self._definitions) if isinstance(node, ast.Name) else []
        parent = self._tree.parent(bound[0]) if len(bound) == 1 else None
        if not isinstance(parent, ast.Tuple):
            value = self._tree.assigned_to(bound[0]) if len(bound) == 1 else None
            return self.is_best_value(value, depth - 1) if value is not None else None
        outer = self._tree.parent(parent)
        is_first = len(parent.elts) == 2 and parent.elts[0] is bound[0]
        return _maximum(outer.value) if is_first and isinstance(outer, ast.Assign) else None


def is_maximum(node: ast.expr) -> bool:
    """Whether an expression is `x.max(dim)`, `torch.max(x, dim)` or `topk`, which have values and indices."""
    return isinstance(node, ast.Call) and python_ast.called_name(node).rpartition(".")[2] in ("max", "topk")


def _is_of_labels(test: ast.Compare) -> bool:
    """Whether a comparison may create labels: `y > 0`."""
    return any(name in ("y", "label", "labels", "target", "targets") for name in python_ast.names_in(test.left))


def _maximum(node: ast.expr) -> ast.Call | None:
    """A maximum along a dimension, which has values and indices."""
    if not isinstance(node, ast.Call) or not is_maximum(node):
        return None
    is_function = isinstance(node.func, ast.Attribute) and python_ast.dotted(node.func.value) == "torch"
    return node if node.keywords or len(node.args) > is_function else None
