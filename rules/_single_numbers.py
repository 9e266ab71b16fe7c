"""Tensors without dimensions, which have no first element."""

from __future__ import annotations

import ast
from collections.abc import Collection

from torchlint.model import kinds, values
from torchlint.pytorch import losses
from torchlint.syntax.python_ast import Site
from torchlint.syntax.python_tree import PythonTree

_REDUCING = frozenset("mean sum prod std var median max min norm dist".split())
_KEEPING = frozenset(
    "data detach clone cpu cuda to float double half numpy squeeze neg abs exp log sqrt sigmoid tanh pow clamp".split()
)
_JOINING = frozenset("add sub mul div".split())


class SingleNumbers:
    """Says whether a tensor certainly has no dimension."""

    def __init__(self, tree: PythonTree, backwards: Collection[values.Value]) -> None:
        """Stores the syntax tree and `backwards`, the losses on which the program calls `backward`."""
        self._tree = tree
        self._backwards = frozenset(backwards)

    def holds(self, value: values.Value, seen: frozenset[values.Value] = frozenset()) -> bool:
        """Whether a value certainly is a tensor without dimensions."""
        value = values.resolved(value)
        if value in seen:
            return True  # a loop: the other inputs decide
        seen |= {value}
        if value in self._backwards:
            return True
        if isinstance(value, values.Phi):
            return any(True for _ in values.inputs_of(value)) and self._holds_each(value, seen)
        if not isinstance(value, values.Tensor) or not value.parents:
            return False
        if value.op in _REDUCING:
            return len(value.parents) == 1 and self._is_reduction(value)
        if value.op in losses.OPERATORS:
            return self._reduces(value.site)
        if isinstance(value, values.ModuleOutput):
            return self._is_loss(values.resolved(value.parents[0]))
        if value.op in _KEEPING:
            return self.holds(value.parents[0], seen)
        return value.op in _JOINING and self._is_joined(value, seen)

    def _holds_each(self, value: values.Phi, seen: frozenset[values.Value]) -> bool:
        return all(self.holds(item, seen) for item in values.inputs_of(value))

    def _is_joined(self, value: values.Tensor, seen: frozenset[values.Value]) -> bool:
        """Whether code adds or multiplies numbers, one of them a tensor."""
        tensors = [item for item in value.parents if kinds.is_number(item) is not values.Answer.YES]
        return bool(tensors) and all(self.holds(item, seen) for item in tensors)

    def _is_loss(self, module: values.Value) -> bool:
        if not isinstance(module, values.Module) or module.info is not None:
            return False
        return module.name.rpartition(".")[2] in losses.FUNCTIONS and self._reduces(module.site)

    def _is_reduction(self, value: values.Tensor) -> bool:
        """Whether the call names no dimensions; `max(a, b)` may also be Python's."""
        node = self._tree.node(value.site)
        return isinstance(node, ast.Call) and not any(item.arg is None for item in node.keywords)

    def _reduces(self, site: Site | None) -> bool:
        """Whether the call of a loss, or of its class, requests no reduction other than to a number."""
        node = self._tree.node(site)
        if not isinstance(node, ast.Call) or any(isinstance(item, ast.Starred) for item in node.args):
            return False
        return all(_is_reducing(keyword) for keyword in node.keywords)


def _is_reducing(keyword: ast.keyword) -> bool:
    if keyword.arg is None:
        return False
    if keyword.arg not in ("reduction", "reduce"):
        return True
    return isinstance(keyword.value, ast.Constant) and keyword.value.value in ("mean", "sum", "batchmean", True, None)
