"""Losses that were cut from their graph before they go backward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, held_parameters, lineage, module_values, program, utilities, values
from torchlint.pytorch import api, naming, triggers
from torchlint.pytorch.autograd_table import NOT_DIFFERENTIABLE, OPERATORS
from torchlint.syntax.python_ast import Site, called_name, dotted, site_of

from ._leaf_losses import RESCALING, leaf_of

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_CUTS = frozenset({"detach", "data", "numpy", "compare", "bitwise"}) | NOT_DIFFERENTIABLE


class LeafLoss(NamedTuple):
    """`backward` starts from a leaf that was made of numbers: it ends there, and `step` has nothing of it."""

    backward: events.Backward
    cut: Site
    step: events.Step


class CutLoss(NamedTuple):
    """`backward` starts from a tensor without a graph: all that it is computed of was cut, as at `cut`."""

    backward: events.Backward
    cut: Site


class BrokenGraph(Rule):
    """A loss is cut from its graph before it goes backward: nothing learns.

    ## What it does
    Finds `backward` of a tensor that is no result of the model any more. Either it was made anew of numbers and told
    to require a gradient, by `torch.tensor(loss.item(), requires_grad=True)`, `Variable(loss.data, requires_grad=True)`
    or `torch.as_tensor(array).requires_grad_()`: then `backward` passes, and ends in the loss itself. Or all that it is
    computed of went through `.item()`, `.numpy()`, `.detach()`, `argmax` or a comparison: then `backward` raises.

    ## Why is this bad?
    No parameter gets a gradient. In the first case nothing says so: the loop runs, the optimizer steps on what it has,
    and the loss never falls.

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
    triggers = (triggers.BACKWARD, (b"requires_grad", b"item", b"numpy", b"detach", b"data", b"arg", b"round"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[LeafLoss | CutLoss]:
        for trace in self.model.program.traces:
            for backward in trace.of(events.Backward) if not self.model.program.tests(trace) else ():
                leaf = leaf_of(backward.loss)
                found = self._leaf_loss(trace, backward, leaf) if leaf else self._cut_loss(trace, backward)
                if found is not None:
                    yield found

    def _leaf_loss(self, trace: program.Trace, backward: events.Backward, leaf: values.Tensor) -> LeafLoss | None:
        """A backward of a leaf that was made in the same iteration, though an optimizer steps afterwards."""
        is_read = leaf.part("grad") is not None or leaf.has_use("register_hook", "retain_grad")
        if leaf.loops != backward.loops or leaf.site is None or is_read:
            return None
        copied = self.model.program.observations.copied
        if leaf in copied:
            was_cut = any(not _is_literal(item) for item in copied[leaf])
        else:
            was_cut = self._cut(trace, leaf.parents) is not None
        step = self._step_after(trace, backward, leaf) if was_cut else None
        return LeafLoss(backward, leaf.site, step) if step is not None else None

    def _step_after(self, trace: program.Trace, backward: events.Backward, leaf: values.Tensor) -> events.Step | None:
        """The step of an optimizer that is older than a leaf, so that it cannot hold it."""
        for step in trace.of(events.Step):
            optimizer = values.resolved(step.optimizer)
            surely = not step.manual and held_parameters.surely_optimizer(optimizer) and optimizer.order < leaf.order
            if surely and step.order > backward.order and not events.apart(step, backward):
                return step
        return None

    def _cut_loss(self, trace: program.Trace, backward: events.Backward) -> CutLoss | None:
        """A backward of what has no graph, since all of it was cut."""
        is_tensor = isinstance(values.resolved(backward.loss), values.Tensor)
        without = is_tensor and self.model.tracking.tracked(backward.loss) is values.Answer.NO
        if not without or self._is_guarded(backward.site):
            return None
        cut = self._cut(trace, (backward.loss,))
        return CutLoss(backward, cut) if cut is not None else None

    def _is_guarded(self, site: Site) -> bool:
        """Whether a condition asks for the graph, or somebody waits for the error."""
        tree = self.model.tree
        return any(
            isinstance(item, (ast.Try, ast.With))
            or (isinstance(item, ast.If) and re.search(r"grad|detach", tree.code(site_of(item.test))))
            for item in tree.ancestors(tree.node(site))
        )

    # -- cut -----------------------------------------------------------------------------------------------

    def _cut(self, trace: program.Trace, made_of: tuple[values.Value, ...]) -> Site | None:
        """The first place where values were cut from their graphs, if all that they are made of surely has none."""
        cuts: list[Site] = []
        stack, seen = [values.resolved(item) for item in made_of], set[values.Value]()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            parts = self._without_graph(value)
            if parts is None:
                return None
            if value.site is not None and not parts and self._is_cut(value):
                cuts.append(value.site)
            stack.extend(map(values.resolved, parts))
        changed = (event for event in trace.of(events.Mutate) if values.resolved(event.target) in seen)
        return min(cuts) if cuts and all(event.result in seen for event in changed) else None

    def _without_graph(self, value: values.Value) -> tuple[values.Value, ...] | None:
        """The values without which a value has no graph either; None where it may have one."""
        if isinstance(value, values.Plain):
            return () if value.is_literal or self._is_number(value) else None
        if isinstance(value, values.Container):
            return tuple(value.elements()) or None  # what is empty here is filled elsewhere
        if isinstance(value, values.Unknown):
            return () if self._is_batch(value) else None
        if not isinstance(value, values.Tensor) or value.leaf or self._is_made_without_gradients(value):
            return None
        if isinstance(value, values.NewTensor):
            return () if self._is_copy(value) else self.model.program.observations.copied.get(value, ())
        if value.op in _CUTS:
            return ()
        if isinstance(value, values.ModuleOutput):
            module = values.resolved(value.parents[0])
            is_known = (
                isinstance(module, values.Module) and module.info is None and not module_values.has_parameters(module)
            )
            return value.parents[1:] if is_known else None
        return value.parents if value.op in OPERATORS or value.op in RESCALING else None

    def _is_cut(self, value: values.Value) -> bool:
        """Whether a value is a number, or a tensor without a graph, that was taken out of another one."""
        if isinstance(value, values.Tensor):
            return self._is_copy(value) if isinstance(value, values.NewTensor) else value.op in _CUTS
        return isinstance(value, values.Plain) and not value.is_literal

    def _is_copy(self, value: values.Value) -> bool:
        """Whether a new tensor is made of data that are computed; `as_tensor` hands on what is a tensor."""
        data = self.model.program.observations.copied.get(value, ())
        node = self.model.tree.node(value.site)
        hands_on = isinstance(node, ast.Call) and called_name(node) in ("as_tensor", "asarray")
        return not hands_on and not all(map(_is_literal, data))

    def _is_number(self, value: values.Value) -> bool:
        """Whether a value surely is a number or array, by the call that made it: `.item()`, or one of NumPy."""
        node = self.model.tree.node(value.site)
        if isinstance(node, ast.Call) and called_name(node) in ("item", "tolist"):
            return True
        while isinstance(node, (ast.Call, ast.Attribute)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and self.model.definitions.qualified(node.id, node) == "numpy"

    def _is_made_without_gradients(self, value: values.Tensor) -> bool:
        """Whether gradients are not on, which training-under-no-grad is about."""
        return value.mode is not api.GradMode.ON and value.op not in _CUTS

    def _is_batch(self, value: values.Value) -> bool:
        """Whether a value is a part of what a loader yields."""
        whole = lineage.whole_of(value)
        if not isinstance(whole, values.Iteration) or not whole.parents:
            return False
        source = values.resolved(whole.parents[0])
        return utilities.is_kind(source, utilities.Kind.LOADER) or bool(naming.LOADER.search(source.label))

    # -- report --------------------------------------------------------------------------------------------

    def report_LeafLoss(self, loss: LeafLoss) -> None:
        self.report(
            loss.backward.site,
            f"{self._name(loss.backward)} is a new leaf, no result of the model: `backward` ends in it, "
            "and no parameter learns",
            related=[(loss.cut, "made here"), (loss.step.site, f"`{loss.step.name}` has no gradients to step on")],
            help="go backward from the tensor that the model and the loss function return",
        )

    def report_CutLoss(self, loss: CutLoss) -> None:
        self.report(
            loss.backward.site,
            f"{self._name(loss.backward)} was cut from its graph: this `backward` raises",
            related=[(loss.cut, "cut here")],
            help="compute the loss with operators that have a gradient, without `.item()`, `.numpy()` or `.detach()`",
        )

    def _name(self, backward: events.Backward) -> str:
        node = self.model.tree.node(backward.site)
        name = dotted(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        return f"`{name}`" if name else "the loss"


def _is_literal(value: values.Value) -> bool:
    """Whether a value is written out: a number, or a list of such."""
    value = values.resolved(value)
    if isinstance(value, values.Container):
        return all(map(_is_literal, value.elements()))
    return isinstance(value, values.Plain) and value.is_literal
