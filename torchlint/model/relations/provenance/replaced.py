"""Modules and parameters that an optimizer misses: created after it as replacements, or never passed to it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, module_values, values
from torchlint.model.definitions import ClassInfo
from torchlint.model.frozen import Frozen
from torchlint.model.observations import Placed
from torchlint.model.ownership import Ownership
from torchlint.model.parts import Parts
from torchlint.model.program import Program, Trace
from torchlint.model.queries import moved_modules
from torchlint.model.queries.sure_graphs import SureGraphs
from torchlint.model.relations.provenance.learners import GIVING_WEIGHTS, Learners, name_of, surely_uses
from torchlint.syntax.python_ast import LOOPS, SCOPES, Site, called_name, dotted, is_literal

_HEAD = LazyPattern(r"(?i)(^|_)(\w*head|classifier|projector|projection|predictor)$")
"""Names of layers that only make sense if they are trained together with the network before them."""
_NUMBER = LazyPattern(r"_?\d+|_[ab]$")
_MOST_OPTIMIZERS = 20
"""Maximum number of optimizers, as each module is compared with each."""
_MOST_CHOICES = 6
"""Maximum number of optimizers that an option may choose, each checked separately."""


class Replacement(NamedTuple):
    """`module` has replaced one whose parameters `optimizer` holds and `step` updates."""

    module: values.Value
    name: str
    optimizer: values.Value
    step: events.Step


class Reassigned(NamedTuple):
    """The call at `site` replaces parameters that the optimizer of `step` holds."""

    site: Site
    step: events.Step
    method: str


class Unheld(NamedTuple):
    """`module` computes a loss before `step`, and no optimizer holds its parameters."""

    module: values.Value
    name: str
    step: events.Step
    optimizer: values.Value
    is_sure: bool
    """Whether it is a loss with parameters, or the only optimizer holds other layers of the same new network."""


class Replacements:
    """Answers about modules that compute a loss without being in the stepping optimizer."""

    def __init__(
        self, program: Program, ownership: Ownership, parts: Parts, frozen: Frozen, sure_graphs: SureGraphs
    ) -> None:
        self.program = program
        self.ownership = ownership
        self.parts = parts
        self.frozen = frozen
        self.sure_graphs = sure_graphs
        self.learners = Learners(program, frozen)
        self.tree = program.tree

    def missed(
        self, trace: Trace, step: events.Step, optimizer: values.Optimizer
    ) -> Iterator[Replacement | Reassigned | Unheld]:
        """The modules that compute the loss before a step but are not among the updated parameters."""
        if len(self._optimizers) > _MOST_OPTIMIZERS:
            return
        called = {module for backward in before(trace, step) for module in self.called(trace, backward)}
        yield from self._made_again(trace, step, optimizer, called)
        yield from self._made_each_time(trace, step, optimizer, called)
        yield from self._placed(trace, step, optimizer, called)
        yield from self._reassigned(trace, step, optimizer, called)
        yield from self._unheld(trace, step, optimizer, called)

    def missed_whichever(self, trace: Trace, step: events.Step) -> Iterator[Replacement | Reassigned | Unheld]:
        """The parameters a step misses for every optimizer that an option may choose."""
        optimizers = list(itertools.islice(values.inputs_of(step.optimizer), _MOST_CHOICES + 1))
        surely = [item for item in optimizers if isinstance(item, values.Optimizer) and self.ownership.held_by(item)[1]]
        if len(surely) != len(optimizers) or len(surely) > _MOST_CHOICES:
            return
        found = [list(self.missed(trace, step, item)) for item in surely]
        others = [{item.module for item in each if isinstance(item, Replacement)} for each in found[1:]]
        for item in found[0]:
            if not others or (isinstance(item, Replacement) and all(item.module in each for each in others)):
                yield item

    def called(self, trace: Trace, backward: events.Backward) -> Iterator[values.Value]:
        """The modules that surely ran for a loss, directly or through their methods."""
        graph = self.sure_graphs.of(backward.loss)
        for call in (call for calls in trace.followed.values() for call in calls):
            if call.receiver is not None and call.result in graph:
                yield values.resolved(call.receiver)
        for item in graph:
            whole = item.parents[0] if isinstance(item, values.Component) else item
            if isinstance(whole, values.ModuleOutput):
                yield values.resolved(whole.parents[0])
            elif (
                isinstance(item, values.Unknown) and item.callee is not None and self.sure_graphs.is_trained_call(item)
            ):
                yield values.resolved(item.callee)

    def _perhaps_called(self, backward: events.Backward) -> Iterator[values.Value]:
        """The modules one of which surely ran for a loss: `head` of `head = new if is_first else old`."""
        for item in self.sure_graphs.of(backward.loss):
            callee = item.callee if isinstance(item, values.Unknown) else None
            if isinstance(callee, values.Phi):
                yield from values.inputs_of(callee)

    # -- made in the place of another ----------------------------------------------------------------

    def _made_again(
        self, trace: Trace, step: events.Step, optimizer: values.Optimizer, called: set[values.Value]
    ) -> Iterator[Replacement]:
        """Whole models created after an optimizer, under the name of the model that it holds."""
        for module in called:
            name = self._target(module)
            if name and self._is_new(module, optimizer, step.order) and self._had_before(optimizer, module):
                if not self._is_taken_care_of(trace, optimizer, module, module, module):
                    yield Replacement(module, name, optimizer, step)

    def _made_each_time(
        self, trace: Trace, step: events.Step, optimizer: values.Optimizer, called: set[values.Value]
    ) -> Iterator[Replacement]:
        """Layers that each iteration of the training loop creates, beside those of an older optimizer."""
        inner = events.repeating(step.loops)[-1:]
        for module in called if inner and inner[0] not in optimizer.loops else ():
            if inner[0] not in module.loops or not self._is_new(module, optimizer, step.order):
                continue
            if self.learners.is_made_to_learn(module) and not self._had_before(optimizer, module):
                if not self._is_taken_care_of(trace, optimizer, module, module, module):
                    yield Replacement(module, name_of(module), optimizer, step)

    def _placed(
        self, trace: Trace, step: events.Step, optimizer: values.Optimizer, called: set[values.Value]
    ) -> Iterator[Replacement]:
        """Layers and parameters placed in a model after an optimizer received its parameters."""
        for placed in self.program.observations.placed:
            owner, module = placed.owner, placed.value
            if not self._precedes(placed, optimizer, step) or not self._is_new(module, optimizer, placed.order + 1):
                continue
            if not self._happens_before(placed, trace, optimizer) or not self._is_kept(trace, placed):
                continue
            if self.learners.may_be_updated_by_hand(placed, step):
                continue
            whole = next((item for item in called if self.parts.is_part(owner, item, derived=True)), None)
            if whole is None and any(module in self._perhaps_called(each) for each in before(trace, step)):
                whole = owner
            if whole is None or not surely_uses(owner, placed.key) or _wraps(module, owner, placed.key):
                continue
            if owner is not whole and self._has_siblings(whole, trace):
                continue  # a class's attribute is one value for all of its objects
            is_inside = whole in self.ownership.held_by(optimizer)[0]
            holds = is_inside or self.ownership.holds(optimizer, owner) is values.Answer.YES
            if holds and not self._is_taken_care_of(trace, optimizer, module, owner, whole):
                yield Replacement(module, self._written(placed), optimizer, step)

    def _precedes(self, placed: Placed, optimizer: values.Optimizer, step: events.Step) -> bool:
        """Whether a placement follows an optimizer and precedes a step, perhaps that of the next iteration."""
        if placed.order < step.order:
            return optimizer.order < placed.order
        repeated = (set(placed.loops) & set(step.loops)) - set(optimizer.loops)
        return bool(repeated) and not self._is_last(placed.site)

    def _is_last(self, site: Site) -> bool:
        """Whether the loop around a statement ends after it: its block breaks, returns or raises."""
        node, leaves = self.tree.own_node(site), False
        while node is not None and not isinstance(node, (*LOOPS, *SCOPES)):
            leaves |= any(isinstance(item, (ast.Break, ast.Return, ast.Raise)) for item in self.tree.block(node))
            node = self.tree.parent(self.tree.statement(node))
        return leaves and isinstance(node, LOOPS)

    def _is_new(self, module: values.Value, optimizer: values.Optimizer, end: int) -> bool:
        """Whether a module or parameter with weights is created after an optimizer, from nothing older."""
        if isinstance(module, values.Module):
            is_plain = module_values.is_as_made(module) and module_values.has_parameters(module)
        else:
            is_plain = isinstance(module, values.Tensor) and not isinstance(module, values.ModuleParameter)
        return is_plain and optimizer.order < module.order < end and not self._takes_in(module, optimizer)

    def _takes_in(self, module: values.Value, optimizer: values.Optimizer) -> bool:
        """Whether a module is built from parts older than an optimizer: `Sequential(Dropout(), head)`."""
        given = lineage.ancestry([module], through=_made_with) - {module}
        return any(0 < item.order < optimizer.order for item in given if module_values.is_module_like(item))

    def _happens_before(self, placed: Placed, trace: Trace, optimizer: values.Optimizer) -> bool:
        """Whether a placement precedes a step: in its root, or where an object is created with its optimizer.

        A placement in the owner's `__init__` is part of creating the owner, and one in `forward` happens in other
        runs.
        """
        makers = {item.owner for item in placed.functions if item.name in ("__init__", "forward")}
        if makers:
            return all(owner is not None and self._makes(owner, optimizer) for owner in makers)
        return placed.order >= trace.start

    def _makes(self, owner: ClassInfo, optimizer: values.Value) -> bool:
        """Whether an object of a class creates an optimizer: in a method, or in a function whose result it stores."""
        made = self.tree.node(optimizer.site.here) if optimizer.site is not None else None
        method = self.program.definitions.method_around(made) if made is not None else None
        stored = self.program.attributes_of(owner).values()
        is_within = method is not None and method.owner is owner
        return is_within or any(optimizer in values.inputs_of(item) for item in stored)

    def _is_kept(self, trace: Trace, placed: Placed) -> bool:
        """Whether an attribute keeps its value to the end."""
        stored = trace.heap.get((placed.owner, str(placed.key)))
        return stored is None or placed.value in values.inputs_of(stored)

    def _written(self, placed: Placed) -> str:
        """The place as the program writes it: `model.fc`, also for `setattr(model, "fc", ...)`."""
        node = self.tree.node(placed.site)
        if isinstance(node, ast.Call) and node.args:
            of_method = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]
            return f"{dotted(of_method)}.{placed.key}" if placed.key is not None else placed.value.label or "the layer"
        return self.tree.code(placed.site)

    def _had_before(self, optimizer: values.Value, module: values.Value) -> bool:
        """Whether an optimizer holds the earlier value of a module's name in the same function, and not the module."""
        if self.ownership.holds(optimizer, module) is not values.Answer.NO:
            return False
        made_of = lineage.ancestry([module])
        return any(
            self._target(old) == self._target(module) and self._around(old) is self._around(module)
            for old in self.ownership.held_by(optimizer)[0]
            if old not in made_of
        )

    def _target(self, value: values.Value) -> str:
        """The name or attribute that the call's result is assigned to: `net`, `model.fc`."""
        node = self.tree.node(values.resolved(value).site)
        node = moved_modules.moved(node, self.tree) if isinstance(node, ast.Call) else None
        parent = self.tree.parent(node) if node is not None else None
        is_alone = isinstance(parent, ast.Assign) and parent.value is node and len(parent.targets) == 1
        return dotted(parent.targets[0]) if is_alone and isinstance(parent, ast.Assign) else ""

    def _around(self, value: values.Value) -> object:
        node = self.tree.node(value.site)
        return self.program.definitions.function_around(node) if node is not None else None

    def _has_siblings(self, whole: values.Value, trace: Trace) -> bool:
        """Whether a function creates several objects of a module's class."""
        info = values.class_of(whole)
        made = {event.value for event in trace.of(events.Fresh) if values.class_of(event.value) is info}
        return info is not None and len(made) > 1

    def _is_taken_care_of(
        self,
        trace: Trace,
        optimizer: values.Value,
        module: values.Value,
        owner: values.Value,
        whole: values.Value,
    ) -> bool:
        """Whether a module is handled otherwise: another optimizer may have it, it is frozen, or a call may add it."""
        if self.frozen.may_be_partly(module) or self.frozen.may_be_partly(owner):
            return True
        handed = (item for event in trace.of(events.MayClear) if event.order > module.order for item in event.handed)
        if any(optimizer in values.inputs_of(item) for item in handed):
            return True
        seen = self._optimizers if whole.order < trace.start else self._stepping(trace, whole)
        later = (item for item in seen if item.order > module.order)
        others = [item for item in later if optimizer not in values.inputs_of(item)]
        return any(
            self.ownership.holds(other, item) is not values.Answer.NO for other in others for item in (module, owner)
        )

    @cached_property
    def _optimizers(self) -> list[values.Value]:
        made = (event.value for trace in self.program.traces for event in trace.of(events.Fresh))
        return [item for item in made if isinstance(item, values.Optimizer)]

    # -- parameters that a call replaces -------------------------------------------------------------

    def _reassigned(
        self, trace: Trace, step: events.Step, optimizer: values.Optimizer, called: set[values.Value]
    ) -> Iterator[Reassigned]:
        """`load_state_dict(..., assign=True)`, or embeddings for added tokens, after the optimizer's creation."""
        for call in trace.of(events.Call):
            node = self.tree.own_node(call.site)
            if not optimizer.order < call.order < step.order or not isinstance(node, ast.Call):
                continue
            assigns = any(item.arg == "assign" and is_literal(item.value, True) for item in node.keywords)
            owner = values.resolved(call.value.parents[0]) if call.value.parents else None
            if owner is None:
                continue
            resizes = called_name(node) == "resize_token_embeddings" and self._adds_tokens
            if resizes or (assigns and called_name(node) == "load_state_dict" and owner in called):
                later = (item for item in self._optimizers if item.order > call.order)
                is_left = all(self.ownership.holds(other, owner) is values.Answer.NO for other in later)
                if is_left and self.ownership.holds(optimizer, owner) is values.Answer.YES:
                    yield Reassigned(call.site, step, called_name(node))

    @cached_property
    def _adds_tokens(self) -> bool:
        """Whether the file adds tokens, so that embeddings surely change their size."""
        return any(FileIndex.of(self.tree).calls_named("add_tokens", "add_special_tokens"))

    # -- modules that no optimizer holds ---------------------------------------------------------------

    def _unheld(
        self, trace: Trace, step: events.Step, optimizer: values.Optimizer, called: set[values.Value]
    ) -> Iterator[Unheld]:
        """New modules in the loss of a step that no optimizer holds.

        An optimizer with a single module may be meant for that one only, unless the other one is a head or a twin. One
        with a list of several has left one out.
        """
        held = {item for item in self.ownership.held_by(optimizer)[0] if module_values.is_module_like(item)}
        is_only = len({item.site for item in self._optimizers}) < 2
        for whole in called.union(*map(self.learners.losses_in, called)):
            is_named = bool(held) and _HEAD.search(name_of(whole)) is not None
            is_head = is_named and self._stepping(trace, whole) <= {optimizer}
            is_own = self.learners.has_own_parameters(whole)
            is_twin = any(_are_twins(whole, item) for item in held)
            if len(held) < 2 and not is_head and not is_own and not is_twin and not _is_of_chain(whole, held):
                continue
            others = self._stepping(trace, whole)
            has_some = self.ownership.holds(optimizer, whole) is values.Answer.YES or _is_of_chain(whole, held)
            is_split = has_some and self.learners.is_made_to_learn(whole, uses=GIVING_WEIGHTS)
            inside = self.learners.parts_in(whole) if is_split else {name_of(whole): whole}
            has_most = is_head or is_twin or (is_only and is_split and len(held & set(inside.values())) > 1)
            for name, module in inside.items():
                if not self.learners.is_made_to_learn(module, name):
                    continue
                is_made = whole.order < optimizer.order or self.learners.has_own_parameters(module)
                if is_made and all(isinstance(item, values.Optimizer) for item in others):
                    if all(self.ownership.holds(other, module) is values.Answer.NO for other in others):
                        yield Unheld(
                            module, name, step, optimizer, has_most or self.learners.has_own_parameters(module)
                        )

    def _stepping(self, trace: Trace, whole: values.Value) -> set[values.Value]:
        """The optimizers created or stepped in a module's scope, and other updates such as those by hand.

        The scope is the function that creates the module; for a module of an object, all methods of the class.
        """
        root = trace.root
        traces = [trace]
        if whole.order < trace.start:
            traces = [
                each
                for each in self.program.traces
                if each.root is None or (root is not None and each.root.owner is root.owner)
            ]
        made = (event.value for each in traces for event in each.of(events.Fresh))
        stepped = (values.resolved(step.optimizer) for each in traces for step in each.of(events.Step))
        return {item for item in made if isinstance(item, values.Optimizer)} | set(stepped)


def before(trace: Trace, step: events.Step) -> Iterator[events.Backward]:
    """The backward passes of an iteration that ends in a step."""
    for backward in trace.of(events.Backward):
        if backward.loops == step.loops and backward.order < step.order and not events.apart(backward, step):
            yield backward


def _is_of_chain(whole: values.Value, held: set[values.Value]) -> bool:
    """Whether an optimizer holds some layers of an `nn.Sequential`."""
    is_chain = isinstance(whole, values.Module) and whole.info is None and whole.name == "torch.nn.Sequential"
    return is_chain and whole not in held and not held.isdisjoint(map(values.resolved, whole.parents))


def _are_twins(first: values.Value, second: values.Value) -> bool:
    """Whether two modules of one class are numbered: `q1` and `q2`, `critic` and `critic_2`."""
    names = {name_of(first), name_of(second)}
    stems = {_NUMBER.sub("", name) for name in names}
    return len(names) == 2 and len(stems) == 1 and _class_name(first) == _class_name(second) != ""


def _class_name(module: values.Value) -> str:
    return module.name if isinstance(module, values.Module) else ""


def _wraps(value: values.Value, owner: values.Value, key: object) -> bool:
    """Whether a layer is built from the one that it replaces."""
    parents = values.resolved(value).parents
    given = [
        *parents,
        *(item for parent in parents if isinstance(parent, values.Container) for item in parent.elements()),
    ]
    return any(isinstance(item, values.Unknown) and item.label == key and owner in item.parents for item in given)


def _made_with(value: values.Value) -> Iterable[values.Value]:
    """The arguments of a module's constructor, or the modules of a list."""
    return lineage.made_of(value) if isinstance(value, (values.Module, values.Container)) else ()
