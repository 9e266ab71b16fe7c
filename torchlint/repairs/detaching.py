"""How to keep a tensor without its graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import libcst as cst

from torchlint.finding import Safety
from torchlint.model import Model
from torchlint.model.events import Backward, Keep, Keeping, apart
from torchlint.model.values import Answer, Component, Container, ModuleOutput, Plain, Tensor, Value, inputs_of, resolved
from torchlint.syntax.edits import Append, Change
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import Site
from torchlint.syntax.tree import dotted

_ELEMENTWISE = ("scale", "add", "sub", "mul", "div", "neg")
_SHOWING = frozenset(
    "print info debug warning log add_scalar set_postfix set_postfix_str set_description write format".split()
)


class KeptTensor(Protocol):
    """The facts that a repair needs about a kept tensor; a rule's answer provides them."""

    @property
    def keep(self) -> Keep:
        """The event that keeps it."""

    @property
    def site(self) -> Site:
        """Where that is reported: at the event, or at a call that leads to it."""

    @property
    def backward(self) -> Backward | None:
        """The backward pass that goes through it, if there is one."""

    @property
    def holds_activations(self) -> bool:
        """Whether what its operators have saved stays in memory with it."""


class Detach:
    """Looks for the expression that has to be detached."""

    def __init__(self, model: Model, nodes: Nodes) -> None:
        self.tracking = model.tracking
        self.nodes = nodes
        self.tree = nodes.tree

    def change(self, kept: KeptTensor) -> Change | None:
        """`.item()` where only a number is shown, else `.detach()`; None where what is kept is written nowhere.

        What has gone backward without being retained can never go backward again, so that detaching it is safe.
        """
        node = self.nodes.at(kept.site)
        if node is None:
            return None
        if kept.site != kept.keep.site:
            return self._at_call(node, kept)
        written = self._slot_value(node) if isinstance(node, cst.Subscript) else _kept(node)
        if written is None:
            return None
        if isinstance(written, (cst.Dict, cst.List, cst.Tuple, cst.Set)):
            return self._named([item.value for item in written.elements], kept)
        expression, value = self._operand(_listed(written), kept.keep.value)
        if any(isinstance(item, (Container, Plain)) or _has_entries(item) for item in inputs_of(value)):
            return None  # a list or dictionary by its name has no `detach`, nor has a number
        if kept.keep.how is Keeping.ADD and self._is_scalar(value, kept) and self._is_only_shown(node):
            return Change("use `.item()`, a number", [Append(expression, ".item()")])
        return _detached(expression, kept, is_tensor=self._is_tensor(value))

    def _is_tensor(self, value: Value) -> bool:
        """Whether a value is one for sure: a part of what a call returns may be a dictionary of numbers."""
        if isinstance(value, Tensor) and not isinstance(value, Component):
            return True
        return value in self.tracking.backpropagated

    def _slot_value(self, slot: cst.Subscript) -> cst.BaseExpression | None:
        """`loss` of `losses[i] = loss`."""
        target = self.tree.parent(slot)
        statement = self.tree.parent(target) if isinstance(target, cst.AssignTarget) else None
        return statement.value if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None

    def _operand(self, expression: cst.BaseExpression, value: Value) -> tuple[cst.BaseExpression, Value]:
        """`loss` of `loss * n`: the only part with a graph."""
        value = resolved(value)
        while isinstance(expression, cst.BinaryOperation) and isinstance(value, Tensor) and len(value.parents) == 2:
            pairs = zip((expression.left, expression.right), value.parents, strict=True)
            with_graph = [pair for pair in pairs if self.tracking.tracked(pair[1]) is not Answer.NO]
            if len(with_graph) != 1:
                break
            expression, value = with_graph[0][0], resolved(with_graph[0][1])
        return expression, value

    def _is_scalar(self, value: Value, kept: KeptTensor) -> bool:
        """Whether `backward` proves a tensor to have one element: it is the loss, or the loss is made of it."""
        stack = [resolved(kept.backward.loss)] if kept.backward is not None else []
        while stack:
            item = stack.pop()
            if item is value:
                return True
            if isinstance(item, Tensor) and item.op in _ELEMENTWISE:
                stack.extend(map(resolved, item.parents))
        return False

    def _at_call(self, node: cst.CSTNode, kept: KeptTensor) -> Change | None:
        """The argument that a local function keeps."""
        return self._named([item.value for item in node.args], kept) if isinstance(node, cst.Call) else None

    def _named(self, written: Iterable[cst.BaseExpression], kept: KeptTensor) -> Change | None:
        """The one of several expressions that is the name of a tensor in the graph that is kept."""
        value = resolved(kept.keep.value)
        items = value.elements() if isinstance(value, Container) else [value]
        graph = {part for item in items for part in self.tracking.graph(item)}
        names = {part.label for part in graph if part.label}
        found = [item for item in written if isinstance(item, cst.Name) and item.value in names]
        return _detached(found[0], kept, is_tensor=True) if len(found) == 1 else None

    # -- what becomes of a sum --------------------------------------------------------------------------

    def _is_only_shown(self, keep: cst.CSTNode) -> bool:
        """Whether a sum in a local variable is printed or logged, and nothing else."""
        target = keep.target if isinstance(keep, cst.AugAssign) else None
        if isinstance(keep, cst.Assign) and len(keep.targets) == 1:
            target = keep.targets[0].target
        if not isinstance(target, cst.Name):
            return False
        return self._name_is_only_shown(target.value, keep, set())

    def _name_is_only_shown(self, name: str, near: cst.CSTNode, seen: set[str]) -> bool:
        seen.add(name)
        reads = self._named_in_scope(name, near)
        return all(self._is_shown(node, near, seen) for node in reads if near not in self.tree.ancestors(node))

    def _named_in_scope(self, name: str, near: cst.CSTNode) -> Iterator[cst.Name]:
        scope = self._scope(near)
        return (node for node in self.tree.names.get(name, ()) if self._scope(node) is scope)

    def _scope(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return next((item for item in self.tree.ancestors(node) if isinstance(item, cst.FunctionDef)), None)

    def _is_shown(self, node: cst.CSTNode, near: cst.CSTNode, seen: set[str]) -> bool:
        """Whether a name is bound here, or read as a number that goes into text or a log."""
        parent = self.tree.parent(node)
        if isinstance(parent, cst.AssignTarget):
            return True
        while isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation)):
            if isinstance(parent, cst.BinaryOperation) and isinstance(parent.left, (cst.SimpleString, cst.Tuple)):
                return True
            node, parent = parent, self.tree.parent(parent)
        if isinstance(parent, cst.FormattedStringExpression):
            return True
        if isinstance(parent, cst.Arg):
            call = self.tree.parent(parent)
            return isinstance(call, cst.Call) and dotted(call.func).rpartition(".")[2] in _SHOWING
        if isinstance(parent, cst.Assign) and parent.value is node and len(parent.targets) == 1:
            target = parent.targets[0].target
            return isinstance(target, cst.Name) and (
                target.value in seen or self._name_is_only_shown(target.value, parent, seen)
            )
        return False


def _listed(expression: cst.BaseExpression) -> cst.BaseExpression:
    """`logits` of `list(logits)`, which has no `detach` itself."""
    if isinstance(expression, cst.Call) and dotted(expression.func) in ("list", "tuple") and len(expression.args) == 1:
        return expression.args[0].value
    return expression


def _detached(expression: cst.BaseExpression, kept: KeptTensor, *, is_tensor: bool) -> Change:
    is_gone = kept.backward is None or not apart(kept.keep, kept.backward)
    safety = Safety.SAFE if is_tensor and is_gone and not kept.holds_activations else Safety.UNSAFE
    return Change("keep it without its graph: `.detach()`", [Append(expression, ".detach()")], safety)


def _kept(keep: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression that a statement keeps, as written."""
    if isinstance(keep, cst.AugAssign):
        return _only_element(keep.value)
    if isinstance(keep, cst.Assign):
        return _beside(keep.value, dotted(keep.targets[0].target))
    if isinstance(keep, cst.Call) and isinstance(keep.func, cst.Attribute):
        index = 1 if keep.func.attr.value == "insert" else 0
        if len(keep.args) > index and keep.args[index].keyword is None and not keep.args[index].star:
            return _only_element(keep.args[index].value)
    return None


def _only_element(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """`loss` of `[loss]`, and of `loss`."""
    if not isinstance(value, (cst.List, cst.Tuple)):
        return value
    elements = [item for item in value.elements if isinstance(item, cst.Element)]
    return elements[0].value if len(elements) == len(value.elements) == 1 else None


def _beside(source: cst.BaseExpression, target: str) -> cst.BaseExpression | None:
    """The expressions added to the old value of the target: `total + loss`, `torch.cat([total, loss])`."""
    parts: list[cst.BaseExpression] = []
    if isinstance(source, cst.BinaryOperation):
        parts = [source.left, source.right]
    elif isinstance(source, cst.Call) and source.args and isinstance(source.args[0].value, (cst.List, cst.Tuple)):
        parts = [item.value for item in source.args[0].value.elements]
    others = [item for item in parts if dotted(item) != target]
    return _only_element(others[0]) if len(parts) == 2 and len(others) == 1 else None


def _has_entries(value: Value) -> bool:
    """Whether the program reads entries by their names, as of a dictionary: `output["loss"]`."""
    return isinstance(value, ModuleOutput) and any(isinstance(key, str) for key in value.known_parts)
