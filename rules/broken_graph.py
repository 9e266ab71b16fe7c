"""Losses that are cut from their graph before `backward`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, held_parameters, program, values
from torchlint.model.relations import terms
from torchlint.pytorch import api, triggers
from torchlint.syntax.python_ast import Site, called_name, dotted, site_of

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_OTHER_METHODS = (
    "backward cpu cuda to numpy data detach requires_grad_ register_hook retain_grad float double half long int bool "
    "type dim numel tolist element_size storage is_contiguous ndimension get_device new_zeros new_ones new_tensor "
    "new_full share_memory_ pin_memory to_dense to_sparse is_floating_point stride data_ptr"
)
_OF_TENSORS = api.TENSOR_METHODS | api.OF_NUMBERS_TOO | frozenset(_OTHER_METHODS.split())
"""Methods of tensors, apart from operators."""


class LeafLoss(NamedTuple):
    """`backward` starts from a leaf built from numbers and stops there; `step` receives no gradient from it."""

    backward: events.Backward
    cut: Site
    step: events.Step


class CutLoss(NamedTuple):
    """`backward` starts from a tensor without a graph: every input of it was cut, as at `cut`."""

    backward: events.Backward
    cut: Site
    is_flat: bool
    """Whether a graph exists, with zero gradients."""


class BrokenGraph(Rule):
    """A loss is cut from its graph before `backward`: nothing learns.

    ## What it does
    Finds `backward` on a tensor that no longer depends on the model:

    - The loss is rebuilt from numbers, as in `torch.tensor(loss.item(), requires_grad=True)`,
      `Variable(loss.data, requires_grad=True)` or `torch.as_tensor(array).requires_grad_()`. Then `backward` raises no
      error, but stops at the loss itself.
    - Every input of the loss went through `.item()`, `.numpy()`, `.detach()`, `argmax` or a comparison. Then
      `backward` raises.
    - Every input went through `round`, `ceil`, `floor` or `sign`. Then the gradients are zero.

    ## Why is this bad?
    No parameter receives a gradient. In the first case there is no error: the optimizer steps without gradients, or
    with old ones, and the loss never falls.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss = torch.tensor(loss.item(), requires_grad=True)
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.tensor](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html): "Constructs a tensor with no
      autograd history (also known as a leaf tensor)"
    """

    code = "TL303"
    category = Category.CORRECTNESS
    triggers = (
        triggers.BACKWARD,
        (b"requires_grad", b"item", b"numpy", b"detach", b"data", b"arg", b"round", b"sign", b"ceil", b"floor"),
    )

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[LeafLoss | CutLoss]:
        for trace in self.model.program.traces:
            for backward in trace.of(events.Backward) if not self.model.program.tests(trace) else ():
                leaf = terms.leaf_of(backward.loss)
                found = self._leaf_loss(trace, backward, leaf) if leaf else self._cut_loss(backward)
                if found is not None:
                    yield found

    def _leaf_loss(self, trace: program.Trace, backward: events.Backward, leaf: values.Tensor) -> LeafLoss | None:
        """A backward of a leaf created in the same iteration, though an optimizer steps afterwards."""
        is_read = leaf.part("grad") is not None or leaf.has_use("register_hook", "retain_grad")
        loss = values.resolved(backward.loss)
        made = loss if isinstance(loss, values.ModuleOutput) else leaf
        if made.loops != backward.loops or leaf.site is None or is_read:
            return None
        copied = self.model.program.observations.copied
        if leaf in copied:
            was_cut = any(not terms.is_literal(item) for item in copied[leaf])
        else:
            was_cut = bool(self._ends(*leaf.parents))
        step = self._step_after(trace, backward, made) if was_cut else None
        return LeafLoss(backward, leaf.site, step) if step is not None else None

    def _step_after(self, trace: program.Trace, backward: events.Backward, made: values.Tensor) -> events.Step | None:
        """The step of an optimizer that is older than a leaf, made with `made`, so that it cannot hold the leaf."""
        for step in trace.of(events.Step):
            optimizer = values.resolved(step.optimizer)
            surely = not step.manual and held_parameters.surely_optimizer(optimizer) and optimizer.order < made.order
            if surely and step.order > backward.order and not events.apart(step, backward):
                return step
        return None

    def _cut_loss(self, backward: events.Backward) -> CutLoss | None:
        """A backward of a loss that has no graph, or only zero gradients, because all of its inputs were cut."""
        loss = values.resolved(backward.loss)
        is_tensor = isinstance(loss, (values.Tensor, values.Phi)) and not _has_other_methods(loss)
        ends = self._ends(loss) if is_tensor and not self._is_guarded(backward.site) else ()
        rounded = [end for end in ends if end.cut is terms.Cut.FLAT]
        flat = [end for end in rounded if self.model.terms.ends.had_graph(end)]
        is_unclear = bool(rounded) and not flat and self.model.tracking.tracked(loss) is not values.Answer.NO
        return CutLoss(backward, _first(flat or ends), bool(flat)) if ends and not is_unclear else None

    def _is_guarded(self, site: Site) -> bool:
        """Whether a condition checks for the graph, or the code expects the error."""
        tree = self.model.tree
        return any(
            isinstance(item, (ast.Try, ast.With))
            or (isinstance(item, ast.If) and re.search(r"grad|detach", tree.code(site_of(item.test))))
            for item in tree.ancestors(tree.node(site))
        )

    def _ends(self, *made_of: values.Value) -> tuple[terms.End, ...]:
        """The places that cut values from their graphs, if certainly none of the inputs has one."""
        found = self.model.terms.ends.of(terms.Place(values.resolved(item)) for item in made_of)
        is_off = any(end.cut is terms.Cut.NO_GRAD for end in found.ends)  # training-under-no-grad reports that
        return found.ends if not found.open and not is_off else ()

    # -- report --------------------------------------------------------------------------------------------

    def report_LeafLoss(self, loss: LeafLoss) -> None:
        self.report(
            loss.backward.site,
            f"{self._name(loss.backward)} is a new leaf, not a result of the model: `backward` stops there, "
            "and no parameter learns",
            related=[
                (loss.cut, "it is created here"),
                (loss.step.site, f"`{loss.step.name}` has no gradients to step with"),
            ],
            help="call `backward` on the tensor that the loss function returns",
        )

    def report_CutLoss(self, loss: CutLoss) -> None:
        name = self._name(loss.backward)
        made = self.model.tree.node(loss.cut)
        operator = called_name(made) if isinstance(made, ast.Call) else "//"
        self.report(
            loss.backward.site,
            f"every input of {name} goes through `{operator}`, whose gradient is zero: no parameter learns"
            if loss.is_flat
            else f"{name} is cut from its graph: this `backward` raises",
            related=[(loss.cut, "its gradient is zero here" if loss.is_flat else "it is cut here")],
            help="compute the loss with operators that have a gradient, without `.item()`, `.numpy()` or `.detach()`",
        )

    def _name(self, backward: events.Backward) -> str:
        call = self.model.tree.node(backward.site)
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return "the loss"
        is_given = backward.framework is not None and call.args
        name = dotted(call.args[0] if is_given else call.func.value)
        return f"`{name}`" if name else "the loss"


def _has_other_methods(value: values.Value) -> bool:
    """Whether code calls methods on a value that tensors do not have, because a decorator has wrapped it."""
    names = value.uses or ()
    others = [name for name in names if name.isidentifier() and not name.endswith("_") and name not in _OF_TENSORS]
    return len(others) > 1


def _first(ends: Iterable[terms.End]) -> Site:
    return min(end.place.value.site for end in ends if end.place.value.site is not None)
