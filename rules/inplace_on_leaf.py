"""Leaves that require grad, changed in place while gradients are on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from torchlint import Category, Rule, edits
from torchlint.model import events, program, values
from torchlint.pytorch import api, naming, operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.matching import Nodes

_RUN_WITH_GRADIENTS = ("forward", "training_step")
"""Methods of modules that PyTorch and Lightning call with gradients on by default."""


class LeafChanged(NamedTuple):
    """`mutate` changes a leaf that requires grad while gradients are on."""

    mutate: events.Mutate
    parameter: bool


class InplaceOnLeaf(Rule):
    """A parameter, or another leaf that requires grad, is changed in place.

    ## What it does
    Finds parameters and other leaf tensors that require grad and that the code changes with `+=`, `x[...] =`, `add_` or
    a similar operation, while gradients are on. A *leaf* is a tensor that no operator has computed.

    ## Why is this bad?
    PyTorch raises "a leaf Variable that requires grad is being used in an in-place operation".

    ## Example
    ```python
    import torch

    weight = torch.randn(3, requires_grad=True)
    for _ in range(10):
        loss = (weight * 2).sum()
        loss.backward()
        weight -= 0.1 * weight.grad
        weight.grad = None
    ```

    Use instead:
    ```python
    import torch

    weight = torch.randn(3, requires_grad=True)
    for _ in range(10):
        loss = (weight * 2).sum()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
    ```

    ## Fix safety
    The fix puts the change, and changes next to it, into a `with torch.no_grad():` block. It is unsafe: if the change
    should have a gradient, the code needs a different formula.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises the error at the line. It refutes the finding if the line
    runs without an error.

    ## Known limits
    A function may be called with gradients off. torchlint does not report a function that changes parameters of a
    module that it receives. It does not report a method that changes parameters of its own module, if no code in the
    file calls the method.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL302"
    category = Category.CORRECTNESS
    triggers = ((b"requires_grad", b"Parameter", b"parameters", b"weight", b"bias", b"grad"),)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.changes_leaves

    def ask(self) -> Iterable[LeafChanged]:
        self._changes = list(self._leaves_changed())
        return self._changes

    def _leaves_changed(self) -> Iterator[LeafChanged]:
        """Leaves that require grad, changed in place while gradients are on."""
        for trace in self.model.program.traces:
            for mutate in trace.of(events.Mutate):
                if self._is_asked_before(mutate) or self._is_for_evaluation(mutate):
                    continue
                leaf = self._leaf(mutate) if mutate.mode is api.GradMode.ON else None
                if leaf is not None and self._surely_on(trace, leaf, mutate):
                    is_parameter = isinstance(leaf, values.ModuleParameter) or not isinstance(leaf, values.Tensor)
                    yield LeafChanged(mutate, is_parameter)

    def _is_asked_before(self, mutate: events.Mutate) -> bool:
        """Whether a condition checks whether a parameter requires a gradient, and skips those that do."""
        for branch, _ in (*mutate.path, *mutate.passed):
            node = self.model.tree.node(branch.site) if isinstance(branch, events.Branch) else None
            if isinstance(node, ast.If) and any(
                name.endswith("requires_grad") for name in python_ast.names_read(node.test)
            ):
                return True
        return False

    def _is_for_evaluation(self, mutate: events.Mutate) -> bool:
        """Whether a flag such as `full_test` enables a change, whose callers then have switched gradients off."""
        for branch, arm in mutate.path:
            node = self.model.tree.node(branch.site) if isinstance(branch, events.Branch) and arm == 0 else None
            flag = python_ast.dotted(node.test).rpartition(".")[2] if isinstance(node, ast.If) else ""
            if naming.EVALUATING.search(flag) or naming.INFERENCE.search(flag):
                return True
        return False

    def _modes_of_calls(self, name: str) -> set[api.GradMode]:
        """The grad modes of calls to methods with a given name that torchlint could not follow."""
        calls = (call for trace in self.model.program.traces for call in trace.of(events.Call))
        callees = ((call, call.value.callee) for call in calls)
        return {call.mode for call, callee in callees if callee is not None and callee.label == name}

    def _leaf(self, mutate: events.Mutate) -> values.Value | None:
        """The leaf that an in-place change modifies, directly or through a view."""
        inputs = (item for item in values.inputs_of(mutate.target) if not _continues(item, mutate))
        leaves = [self._leaf_under(item, mutate) for item in inputs]
        return leaves[0] if leaves and all(leaf is not None for leaf in leaves) else None

    def _leaf_under(self, value: values.Value, mutate: events.Mutate) -> values.Value | None:
        value = values.resolved(value)
        while isinstance(value, values.Tensor) and not value.leaf and value.base is not None:
            if value.op in (operators.DATA, operators.DETACH, operators.NUMPY) or value.mode is api.GradMode.OFF:
                return None
            value = values.resolved(value.base)
        frozen = self.model.frozen
        owners = (values.resolved(parent) for parent in value.parents)
        if value in frozen.observed or any(map(frozen.may_be, owners)):
            return None
        if isinstance(value, values.Tensor):
            return value if value.leaf else None
        if not isinstance(value, values.Unknown):
            return None
        return value if self._by_own_gradient(value, mutate) or self._is_of_layer(value, mutate) else None

    def _is_of_layer(self, value: values.Unknown, mutate: events.Mutate) -> bool:
        """Whether a value is the weight or bias of an object that a condition checks to be a PyTorch layer."""
        if not isinstance(value, values.Attribute) or value.label not in ("weight", "bias"):
            return False
        arms = self.model.program.observations.layers.get(values.resolved(value.parents[0]), set())
        return not arms.isdisjoint(mutate.path)

    def _by_own_gradient(self, value: values.Unknown, mutate: events.Mutate) -> bool:
        """`p -= lr * p.grad`: a tensor updated by its own gradient is a leaf."""
        gradient = value.part("grad")
        return gradient is not None and any(gradient in self.model.tracking.graph(item) for item in mutate.by)

    def _surely_on(self, trace: program.Trace, leaf: values.Value, mutate: events.Mutate) -> bool:
        """Whether callers cannot have switched gradients off."""
        if trace.root is None or any(trace.of(events.Backward)):
            return True
        if isinstance(trace.receiver, values.Optimizer):
            return False
        if trace.called and (modes := self._modes_of_calls(trace.root.name)):
            return modes == {api.GradMode.ON}
        if trace.called or (isinstance(leaf, values.Unknown) and self._is_of_layer(leaf, mutate)):
            return False
        if isinstance(trace.receiver, values.Module) and trace.root.name in _RUN_WITH_GRADIENTS:
            return True
        return leaf.order > trace.start and mutate.how != operators.COPY_

    def report_LeafChanged(self, changed: LeafChanged) -> None:
        what = "a parameter" if changed.parameter else "a leaf that requires grad"
        self.report(
            changed.mutate.site,
            f"this in-place operation changes {what}, while gradients are on: PyTorch raises",
            help="wrap the change in `with torch.no_grad():`",
            fix=self._fix(self.nodes, changed.mutate.site) if self.nodes is not None else None,
        )

    def _fix(self, nodes: Nodes, site: python_ast.Site) -> edits.Change | None:
        """One block for all consecutive changes."""
        no_grad = self.model.definitions.local_name("torch.no_grad")
        change, tree = nodes.at(site), nodes.tree
        block = tree.block(change) if change is not None else None
        if no_grad is None or change is None or not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        changes = (nodes.at(other.mutate.site) for other in self._changes)
        statements = {tree.statement(other) for other in changes if other is not None}
        body: list[cst.CSTNode] = list(block.body)
        first = last = body.index(tree.statement(change))
        while first and _only_changes(body[first - 1]) and body[first - 1] in statements:
            first -= 1
        while last + 1 < len(body) and _only_changes(body[last + 1]) and body[last + 1] in statements:
            last += 1
        if not _only_changes(body[first]):
            return None
        header = f"with {no_grad}():"
        return edits.Change(f"wrap it in `{header}`", [edits.Enclose(body[first], body[last], header)])


def _only_changes(statement: cst.CSTNode) -> bool:
    """Whether a statement creates no tensor that may need a graph."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return bool(parts) and all(
        isinstance(part, (cst.AugAssign, cst.Expr))
        or (isinstance(part, cst.Assign) and all(isinstance(item.target, cst.Subscript) for item in part.targets))
        for part in parts
    )


def _continues(value: values.Value, mutate: events.Mutate) -> bool:
    """Whether a value of a Phi is the result of an earlier in-place change of another of its values."""
    return isinstance(value, values.Tensor) and value.base is not None and value.base is mutate.target
