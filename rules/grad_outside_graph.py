"""Calls to `autograd.grad` on tensors outside the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, lineage, module_values, program, values
from torchlint.model.relations import terms
from torchlint.pytorch import api, operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_MAYBE_ITSELF = api.PASSING_METHODS - {"clone", "sum", "mean"} | {"expand_as", "reshape", "flatten", "ravel"}
"""Operators that may return their own input tensor."""
_DATA = frozenset({"data"})
_CUTTING = _DATA | {operators.DETACH}


class WithoutGraph(NamedTuple):
    """`outputs` of a call certainly have no graph."""

    grad: events.Grad


class WithoutGradient(NamedTuple):
    """An input of a call certainly does not require grad."""

    grad: events.Grad
    value: values.Value


class MadeLater(NamedTuple):
    """An input of a call is a tensor created after the outputs, so it is not in their graph."""

    grad: events.Grad
    value: values.Value
    outputs: values.Value


class CutOff(NamedTuple):
    """An input of a call is a leaf that the outputs use only detached, or before it requires grad."""

    grad: events.Grad
    value: values.Tensor
    outputs: values.Value


class GradOutsideGraph(Rule):
    """`autograd.grad` differentiates a tensor outside the graph: it raises.

    ## What it does
    Finds calls to `torch.autograd.grad` without `allow_unused` where:

    - an input does not require grad;
    - an input was created after the outputs, such as a slice or a copy of the tensor used in the forward pass;
    - the outputs use an input only after `detach()`, or before its `requires_grad_()`;
    - the outputs have no graph.

    ## Why is this bad?
    PyTorch raises "One of the differentiated Tensors does not require grad" or "appears to not have been used in
    the graph". A slice taken after the forward pass is a new tensor, and the outputs do not depend on it.

    ## Example
    ```python
    import torch

    def residual(model, points):
        points = points.requires_grad_()
        u = model(points)
        return torch.autograd.grad(u.sum(), points[:, 0], create_graph=True)[0]
    ```

    Use instead:
    ```python
    import torch

    def residual(model, points):
        points = points.requires_grad_()
        u = model(points)
        return torch.autograd.grad(u.sum(), points, create_graph=True)[0][:, 0]
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises an error at the line. It refutes the finding if the
    line ran three times without an error.

    ## References
    - [torch.autograd.grad](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html)
    """

    code = "TL313"
    category = Category.CORRECTNESS
    triggers = ((b"grad",), (b"autograd",))
    calls = frozenset({"grad"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.has_word((b"autograd",))

    def ask(self) -> Iterator[WithoutGraph | WithoutGradient | MadeLater | CutOff]:
        for trace in self.model.program.traces:
            for grad in trace.of(events.Grad) if not self.model.program.tests(trace) else ():
                if grad.mode is api.GradMode.ON and not self.model.tree.expects_error(self.model.tree.node(grad.site)):
                    yield from self._faults(grad, trace)

    def _faults(
        self, grad: events.Grad, trace: program.Trace
    ) -> Iterator[WithoutGraph | WithoutGradient | MadeLater | CutOff]:
        outputs = values.resolved(grad.outputs)
        if isinstance(outputs, values.Tensor) and self._surely_without(outputs):
            yield WithoutGraph(grad)
            return
        given = values.resolved(grad.inputs) if grad.inputs is not None and not grad.allows_unused else None
        inputs = given.elements() if isinstance(given, values.Container) else [given] if given is not None else []
        for value in map(values.resolved, inputs):
            if self._surely_without(value) and not isinstance(value, (values.Plain, values.Container)):
                if not self._may_be_told(value, grad, trace):
                    yield WithoutGradient(grad, value)
            elif self._is_later(value, outputs, grad):
                yield MadeLater(grad, value, outputs)
            elif isinstance(value, values.Tensor) and self._is_cut(value, outputs):
                yield CutOff(grad, value, outputs)

    def _is_cut(self, value: values.Tensor, outputs: values.Value) -> bool:
        """Whether outputs come from a leaf only through `detach`, or from a time before it required grad."""
        if value not in self.model.program.observations.unfrozen or not value.parents:
            return False
        before = values.resolved(value.parents[0])
        if before in self.model.tracking.pass_through(outputs):
            return False  # the same tensor, which may have a graph already
        found = lineage.ancestry([outputs], lambda item: map(values.resolved, lineage.made_of(item)))
        if value in found:
            is_sure = any(
                isinstance(item, values.Tensor) and item.op in _CUTTING and value in item.parents for item in found
            )
            return is_sure and value not in self.model.tracking.pass_through(outputs)
        users = [item for item in found if before in map(values.resolved, item.parents)]
        return bool(users) and all(item.order < value.order for item in users)

    def _surely_without(self, value: values.Value) -> bool:
        """Whether a tensor certainly requires no grad, and no code sets it."""
        if isinstance(value, values.Tensor) and value.op in _DATA and not _is_of_tensor(value):
            return False
        found = self.model.terms.ends.of([terms.Place(value)])
        told = (leaf.base for leaf in self.model.program.observations.unfrozen if isinstance(leaf, values.Tensor))
        is_flat = any(end.cut is terms.Cut.FLAT for end in found.ends)
        return not found.open and not is_flat and found.before.isdisjoint(base for base in told if base is not None)

    def _may_be_told(self, value: values.Value, grad: events.Grad, trace: program.Trace) -> bool:
        """Whether a call before receives the object of an attribute, whose tensor it may tell to require grad.

        An example is a network that gets a batch: `out = model(batch); grad(out.sum(), batch.pos)`.
        """
        owner = values.resolved(value.parents[0]) if isinstance(value, values.Attribute) and value.parents else None
        calls = (event for event in trace.of_kinds(events.Call, events.Compute) if event.order < grad.order)
        return owner is not None and any(owner in map(values.resolved, event.value.parents) for event in calls)

    def _is_later(self, value: values.Value, outputs: values.Value, grad: events.Grad) -> bool:
        """Whether a value is a new tensor created between outputs and call: a result, or a slice, `x[:, 0:1]`.

        A container may also hold what the end of an iteration stores for the outputs of the next one.
        """
        is_in_loop = value.loops[: len(outputs.loops)] == outputs.loops
        if not isinstance(outputs, (values.Tensor, values.CallResult)) or not is_in_loop or outputs.site is None:
            return False
        if isinstance(value, values.Tensor):
            return not value.leaf and value.op not in _MAYBE_ITSELF and outputs.order < value.order < grad.order
        node, before = self.model.tree.own_node(value.site), self.model.tree.own_node(outputs.site)
        if not isinstance(value, values.Element) or not isinstance(node, ast.Subscript) or before is None:
            return False
        around = self.model.definitions.function_around
        is_slice = isinstance(node.slice, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.slice.elts)
        is_below = python_ast.site_of(node).start > python_ast.site_of(before).start
        return is_slice and is_below and around(node) is around(before)

    def report_WithoutGraph(self, without: WithoutGraph) -> None:
        self.report(
            without.grad.site,
            f"{self._name(without.grad.outputs)} has no graph: this `autograd.grad` raises",
            help="compute the outputs with gradients on, from tensors that require grad",
        )

    def report_WithoutGradient(self, without: WithoutGradient) -> None:
        self.report(
            without.grad.site,
            f"{self._name(without.value)} does not require grad: this `autograd.grad` raises",
            help="call `requires_grad_()` on it before the forward pass",
        )

    def report_MadeLater(self, later: MadeLater) -> None:
        places = ((later.value.site, "it is created here"), (later.outputs.site, "the outputs are computed before it"))
        self.report(
            later.grad.site,
            f"{self._name(later.value)} is created after the outputs, outside their graph: this `autograd.grad` raises",
            related=[(site, text) for site, text in places if site is not None],
            help="differentiate with respect to the tensor used in the forward pass",
        )

    def report_CutOff(self, cut: CutOff) -> None:
        places = (
            (cut.value.site, "it requires grad from here on"),
            (cut.outputs.site, "the outputs are computed here"),
        )
        self.report(
            cut.grad.site,
            f"{self._name(cut.value)} was not in the graph when the outputs were computed: this `autograd.grad` raises",
            related=[(site, text) for site, text in places if site is not None],
            help="call `requires_grad_()` before the forward pass, and do not detach its input",
        )

    def _name(self, value: values.Value) -> str:
        code = value.label or (" ".join(self.model.tree.code(value.site).split()) if value.site is not None else "")
        return f"`{code}`" if code and len(code) < 60 else "an argument"


def _is_of_tensor(data: values.Tensor) -> bool:
    """Whether `data` is surely the attribute of a tensor. Another object may keep a tensor with a graph there."""
    owner = values.resolved(data.parents[0])
    is_of_objects = any(isinstance(values.resolved(item), values.UnknownObject) for item in owner.parents)
    return not is_of_objects and (isinstance(owner, values.Tensor) or module_values.is_forward(owner))
