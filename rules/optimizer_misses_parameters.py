"""Parameters that are trained, as it looks, but that the optimizer does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, module_values, program, values
from torchlint.model.queries import moved_modules
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import Site, dotted, walk

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_ADDING = LazyPattern(rb"add_param_group|param_groups\.|\[[\"']params[\"']\]\s*=")
"""What gives an optimizer parameters that it had not."""


class ReplacedModule(NamedTuple):
    """`module` has taken the place of one whose parameters `optimizer` holds, and `step` updates those."""

    module: values.Module
    name: str
    optimizer: values.Value
    step: events.Step
    is_part: bool
    """Whether it is a layer of the model, and not the model."""


class LateUnfreezing(NamedTuple):
    """`module` was frozen when it ran for the loss of `backward`, and is unfrozen at `site`, after that."""

    site: Site
    module: values.Value
    backward: events.Backward


class OptimizerMissesParameters(Rule):
    """The optimizer holds parameters that the trained model no longer has.

    ## What it does
    Finds a module or layer that is made anew after its optimizer, under the name of the one that the optimizer got
    its parameters from, where a `backward` through the new one and a step of that optimizer follow. Also
    `requires_grad = True` for a frozen module between its forward pass and the backward of the loss.

    ## Why is this bad?
    The optimizer goes on updating parameters that nothing uses, and the new ones stay as they were initialized.
    Nothing raises: a new classification head is simply never trained. What is unfrozen after the forward pass gets no
    gradient from it, since the graph was built without it.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn

    def finetune(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model.fc = nn.Linear(512, 10)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn

    def finetune(model, loader):
        model.fc = nn.Linear(512, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    ```

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): "constructing it"
    """

    code = "TL111"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, triggers.STEP, (b"parameters",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[ReplacedModule | LateUnfreezing]:
        if self.model.is_test or any(_ADDING.search(tree.source.code) for tree in self.model.program.files):
            return
        for trace in self.model.program.traces:
            for step in trace.of(events.Step):
                optimizer = values.resolved(step.optimizer)
                if isinstance(optimizer, values.Optimizer) and self.model.ownership.held_by(optimizer)[1]:
                    yield from self._replaced(trace, step, optimizer)
                    yield from self._unfrozen(trace, step, optimizer)

    def _replaced(
        self, trace: program.Trace, step: events.Step, optimizer: values.Optimizer
    ) -> Iterator[ReplacedModule]:
        """The modules that were made after an optimizer, in place of one that it holds, and are used in a loss."""
        called = {module for backward in _before(trace, step) for module in self._called(trace, backward)}
        new = [(module, module, self._target(module), False) for module in called]
        for (owner, name), stored in trace.heap.items():
            for value in values.inputs_of(stored) if owner in called else ():
                target = self._target(value)
                if target.endswith(f".{name}") and _has(owner, name) and not _wraps(value, owner, name):
                    new.append((values.resolved(value), owner, target, True))
        for module, whole, name, is_part in new:
            is_later = isinstance(module, values.Module) and optimizer.order < module.order < step.order
            if not module_values.is_as_made(module) or self._takes_in(module, optimizer):
                continue
            if not is_later or not name or not module_values.has_parameters(module):
                continue
            misses = self._holds(optimizer, whole) if is_part else self._had_before(optimizer, module)
            if misses and not self._is_taken_care_of(trace, optimizer, module, whole):
                assert isinstance(module, values.Module)
                yield ReplacedModule(module, name, optimizer, step, is_part)

    def _called(self, trace: program.Trace, backward: events.Backward) -> Iterator[values.Value]:
        """The modules that surely ran for a loss, they or methods of theirs."""
        graph = self.model.sure_graphs.of(backward.loss)
        for call in (call for calls in trace.followed.values() for call in calls):
            if call.receiver is not None and call.result in graph:
                yield values.resolved(call.receiver)
        for item in graph:
            whole = item.parents[0] if isinstance(item, values.Component) else item
            if isinstance(whole, values.ModuleOutput):
                yield values.resolved(whole.parents[0])
            elif (
                isinstance(item, values.Unknown)
                and item.callee is not None
                and self.model.sure_graphs.is_trained_call(item)
            ):
                yield values.resolved(item.callee)

    def _takes_in(self, module: values.Value, optimizer: values.Optimizer) -> bool:
        """Whether a module is made with what is older than an optimizer: `Sequential(Dropout(), head)`."""
        given = lineage.ancestry([module], through=_made_with) - {module}
        return any(0 < item.order < optimizer.order for item in given if module_values.is_module_like(item))

    def _holds(self, optimizer: values.Value, module: values.Value) -> bool:
        return self.model.ownership.holds(optimizer, module) is values.Answer.YES

    def _had_before(self, optimizer: values.Value, module: values.Value) -> bool:
        """Whether an optimizer holds what had the name of a module before, in the same function, and not the module."""
        if self.model.ownership.holds(optimizer, module) is not values.Answer.NO:
            return False
        made_of = lineage.ancestry([module])
        return any(
            self._target(old) == self._target(module) and self._around(old) is self._around(module)
            for old in self.model.ownership.held_by(optimizer)[0]
            if old not in made_of
        )

    def _target(self, value: values.Value) -> str:
        """What the call that makes a value is assigned to: `net`, `model.fc`."""
        value = values.resolved(value)
        node = self.model.tree.node(value.site)
        node = moved_modules.moved(node, self.model.tree) if isinstance(node, ast.Call) else None
        parent = self.model.tree.parent(node) if node is not None else None
        is_alone = isinstance(parent, ast.Assign) and parent.value is node and len(parent.targets) == 1
        return dotted(parent.targets[0]) if is_alone and isinstance(parent, ast.Assign) else ""

    def _around(self, value: values.Value) -> object:
        node = self.model.tree.node(value.site)
        return self.model.definitions.function_around(node) if node is not None else None

    def _is_taken_care_of(
        self, trace: program.Trace, optimizer: values.Value, module: values.Value, whole: values.Value
    ) -> bool:
        """Whether another optimizer may have a module, it is frozen, or a call may add it to this optimizer."""
        if self.model.frozen.may_be_partly(module) or self.model.frozen.may_be_partly(whole):
            return True
        handed = (item for event in trace.of(events.MayClear) if event.order > module.order for item in event.handed)
        if any(optimizer in values.inputs_of(item) for item in handed):
            return True
        others = [item for item in self._optimizers if item is not optimizer and item.order > module.order]
        return any(
            self.model.ownership.holds(other, item) is not values.Answer.NO
            for other in others
            for item in (module, whole)
        )

    @cached_property
    def _optimizers(self) -> list[values.Value]:
        made = (event.value for trace in self.model.program.traces for event in trace.of(events.Fresh))
        return [item for item in made if isinstance(item, values.Optimizer)]

    # -- unfrozen too late ---------------------------------------------------------------------------------

    def _unfrozen(self, trace: program.Trace, step: events.Step, optimizer: values.Value) -> Iterator[LateUnfreezing]:
        """Modules that are unfrozen between the forward pass and the backward, where that happens once."""
        for backward in _before(trace, step) if not step.loops else ():
            for module in self._called(trace, backward) if not backward.loops else ():
                passes = [event.order for event in trace.of(events.Compute) if _runs(event, module)]
                site = self._unfreezing(module, max(passes, default=0), backward)
                if site is not None and self._holds(optimizer, module):
                    yield LateUnfreezing(site, module, backward)

    def _unfreezing(self, module: values.Value, ran: int, backward: events.Backward) -> Site | None:
        """Where a frozen module is unfrozen after its last run and before a backward."""
        if not self.model.frozen.may_be_partly(module):
            return None
        switches = self.model.program.observations.unfrozen
        found = [item for item in switches if 0 < ran < item.order < backward.order and item.site is not None]
        return next((item.site for item in found if module in lineage.ancestry([item])), None)

    # -- report --------------------------------------------------------------------------------------------

    def report_ReplacedModule(self, replaced: ReplacedModule) -> None:
        assert replaced.module.site is not None
        related = [(replaced.step.site, "this step updates the parameters of the old one")]
        if replaced.optimizer.site is not None:
            related.insert(0, (replaced.optimizer.site, "the optimizer got its parameters here"))
        self.report(
            replaced.module.site,
            f"`{replaced.name}` is made after `{replaced.step.name}`, which does not have its parameters: "
            "they never learn",
            related=related,
            help="make the optimizer after it",
        )

    def report_LateUnfreezing(self, late: LateUnfreezing) -> None:
        name = late.module.label or "the module"
        self.report(
            late.site,
            f"`{name}` is unfrozen after it ran for this loss: `backward` gives it no gradients",
            related=[(late.backward.site, "this `backward`")],
            help="unfreeze it before the forward pass",
        )


def _before(trace: program.Trace, step: events.Step) -> Iterator[events.Backward]:
    """The backward passes of an iteration that ends in a step."""
    for backward in trace.of(events.Backward):
        if backward.loops == step.loops and backward.order < step.order and not events.apart(backward, step):
            yield backward


def _has(owner: values.Value, name: str) -> bool:
    """Whether an object surely uses an attribute: its class stores it, or reads it in `forward`, or is not known."""
    info = values.class_of(owner)
    if info is None or "__init__" in info.writers(name):
        return True
    forward = info.method("forward")
    if forward is None or not forward.parameters or "forward" in info.writers(name):
        return False
    return f"{forward.parameters[0]}.{name}" in {dotted(node) for node in walk(forward.node)}


def _wraps(value: values.Value, owner: values.Value, name: str) -> bool:
    """Whether a layer is made with the one whose place it takes in it."""
    parents = values.resolved(value).parents
    given = [
        *parents,
        *(item for parent in parents if isinstance(parent, values.Container) for item in parent.elements()),
    ]
    return any(isinstance(item, values.Unknown) and item.label == name and owner in item.parents for item in given)


def _made_with(value: values.Value) -> Iterable[values.Value]:
    """What a module, or a list of such, is made with."""
    return lineage.made_of(value) if isinstance(value, (values.Module, values.Container)) else ()


def _runs(event: events.Compute, module: values.Value) -> bool:
    return isinstance(event.value, values.ModuleOutput) and values.resolved(event.value.parents[0]) is module
