"""Parts of modules that always run with gradients off, though an optimizer holds them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.events import Backward, Step
from torchlint.model.frozen import Frozen
from torchlint.model.lineage import ancestry
from torchlint.model.module_values import has_parameters
from torchlint.model.ownership import Ownership
from torchlint.model.program import Program, Trace
from torchlint.model.queries.gradient_users import sayings
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Attribute,
    Container,
    Module,
    ModuleOutput,
    Optimizer,
    Phi,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.pytorch.autograd_table import INPLACE
from torchlint.syntax.python_ast import FUNCTIONS, Site, dotted, is_literal, site_of

_FROM_A_FILE = LazyPattern(
    rb"load_state_dict[ \t]*\((?![\w.]+\.state_dict\(\)[ \t]*[,)])"
    rb"|pretrained|torch\.hub|load_model|load_checkpoint|safetensors"
)
"""Weights from elsewhere, not from another network of the program."""


class UntrainedPart(NamedTuple):
    """A loss needs the output of the part `name`, but it always runs with gradients off, because of `switch`."""

    use: Site
    name: str
    step: Step
    switch: Site


class UntrainedParts:
    """Analyzes the `forward` of each module behind a loss, in the file or in one that it imports."""

    def __init__(self, program: Program, tracking: Tracking, ownership: Ownership, frozen: Frozen) -> None:
        self.tree = program.tree
        self.program = program
        self.tracking = tracking
        self.ownership = ownership
        self.frozen = frozen

    def answers(self) -> Iterator[UntrainedPart]:
        """For each place that switches gradients off, the first part, with the first step that should train it."""
        done: set[Site] = set()
        for trace in self.program.traces:
            for step in trace.of(Step):
                held, known = self.ownership.held_by(resolved(step.optimizer))
                if not known or step.manual:
                    continue
                graph = self._graph(step, trace)
                for answer in (*self._behind(step, held, graph), *self._beside(step, held, graph)):
                    if answer.switch not in done:
                        done.add(answer.switch)
                        yield answer

    def _behind(self, step: Step, held: set[Value], graph: set[Value]) -> Iterator[UntrainedPart]:
        """The parts of modules behind the losses of a step that the optimizer holds, separately or as a whole."""
        stack = [(value, False) for value in graph]
        seen: set[tuple[ClassInfo, bool]] = set()
        while stack:
            value, is_held = stack.pop()
            whole = _module_run(value)
            if whole is None or whole.info is None:
                continue
            is_held = is_held or whole in held
            if (whole.info, is_held) in seen:
                continue
            seen.add((whole.info, is_held))
            returned = self.program.returned_by(whole.info)
            inside = ancestry([returned]) if returned is not None else set()
            stack.extend((item, is_held) for item in inside)
            if self._may_stand_still(whole):
                continue
            for name, part in self._meant_to_learn(whole.info, held, is_held, set()):
                if self.frozen.may_be_partly(part):
                    continue
                answer = self._untrained(name, _uses(part, inside), self._mentions(name), step)
                if answer is not None:
                    yield answer

    def _beside(self, step: Step, held: set[Value], graph: set[Value]) -> Iterator[UntrainedPart]:
        """The parts of a module that run separately, without gradients, for another part that learns."""
        for whole in sorted(held - self._learning, key=lambda module: module.order):
            if not isinstance(whole, Module) or whole.info is None or self._may_stand_still(whole):
                continue
            parts = self.program.attributes_of(whole.info)
            learning = [value for value in graph if _module_run(value) in parts.values()]
            made_of = ancestry(learning)
            for name, part in parts.items():
                if part in self._learning or not self._is_meant_to_learn(name, part):
                    continue
                outside = [item for item in self._mentions(name) if not self._is_of(item, whole.info)]
                answer = self._untrained(name, _uses(part, made_of), outside, step)
                if answer is not None:
                    yield answer

    def _is_of(self, mention: ast.Attribute, info: ClassInfo) -> bool:
        """Whether an attribute is used in the class that owns it, or belongs to an unrelated class."""
        method = self.program.definitions_of(mention).method_around(mention)
        if method is None or method.owner is None or method.owner is info:
            return method is not None and method.owner is info
        is_own = dotted(mention.value) in method.parameters[:1]
        return is_own and info not in method.owner.ancestors() and method.owner not in info.ancestors()

    @cached_property
    def _learning(self) -> set[Value]:
        """The modules that run with gradients on for the loss of any trace."""
        losses = (backward.loss for trace in self.program.traces for backward in trace.of(Backward))
        ran = (_module_run(value) for loss in losses for value in self.tracking.pass_through(loss))
        return {module for module in ran if module is not None}

    def _graph(self, step: Step, trace: Trace) -> set[Value]:
        """The graph of the losses that go backward in the iteration of a step."""
        losses = (backward.loss for backward in trace.backwards_of(step))
        return {value for loss in losses for value in self.tracking.pass_through(loss)}

    def _meant_to_learn(
        self, info: ClassInfo, held: set[Value], is_held: bool, done: set[ClassInfo]
    ) -> Iterator[tuple[str, Value]]:
        """The parts of a module that an optimizer should train, with their parts, whose methods it may call."""
        done.add(info)
        for name, part in self.program.attributes_of(info).items():
            if part in held or (is_held and self._is_meant_to_learn(name, part)):
                yield name, part
                inner = part.info if isinstance(part, Module) else None
                if inner is not None and inner not in done:
                    yield from self._meant_to_learn(inner, held, True, done)

    def _untrained(
        self, name: str, uses: list[Tensor], mentions: Iterable[ast.Attribute], step: Step
    ) -> UntrainedPart | None:
        """Whether a part is used, and always without gradients."""
        sites = [use.site for use in uses if use.mode is api.GradMode.OFF and use.site is not None]
        if not sites or len(sites) < len(uses) or not all(map(self._teaches_nothing, mentions)):
            return None
        use = min(sites, key=lambda site: site.start)
        switch = self._switch(self.tree.node(use))
        return UntrainedPart(use, name, step, _reached_by(switch, use)) if switch is not None else None

    def _may_stand_still(self, whole: Module) -> bool:
        """Whether some parameters of a module may be frozen, visibly or by functions that the file never calls."""
        return self.frozen.may_be_partly(whole) or self._is_said_unseen

    @cached_property
    def _is_said_unseen(self) -> bool:
        return any(map(self._says_unseen, self.program.files.values()))

    def _says_unseen(self, definitions: Definitions) -> bool:
        """Whether a method or function that torchlint did not interpret sets which tensors require gradients."""
        around = filter(None, map(definitions.function_around, sayings(definitions.tree)))
        return any(info.owner is not None or info not in self.program.observations.interpreted for info in around)

    def _is_meant_to_learn(self, name: str, part: Value) -> bool:
        """Whether a part that an optimizer holds is created here, and its name does not suggest freezing."""
        stands_still = naming.STANDING_STILL.search(name) or any(
            _FROM_A_FILE.search(tree.source.code) for tree in self.program.files
        )
        return not stands_still and has_parameters(part) and self._is_new(part)

    def _is_new(self, part: Value) -> bool:
        """Whether a module or parameter starts with random weights."""
        if isinstance(part, Phi):
            return all(map(self._is_new, inputs_of(part)))
        if isinstance(part, Tensor):
            return part.leaf
        if not isinstance(part, Module):
            return False
        if part.info is not None:
            inside = self.program.attributes_of(part.info).values()
            return not any(isinstance(item, Unknown) and not isinstance(item, Attribute) for item in inside)
        if not part.name.startswith("torch.nn."):
            return False
        if part.name.rpartition(".")[2] not in ("Sequential", "ModuleList", "ModuleDict"):
            return True
        return all(self._is_new(resolved(item)) for given in part.parents for item in _unpacked(given))

    # -- mentions ---------------------------------------------------------------------------------------

    def _mentions(self, name: str) -> Iterator[ast.Attribute]:
        return (node for tree in self.program.files for node in tree.of_type(ast.Attribute) if node.attr == name)

    def _teaches_nothing(self, mention: ast.Attribute) -> bool:
        """Whether a use of an attribute cannot train it.

        `__init__` stores it, an optimizer or an interpreted function receives it, a change raises, or gradients are
        off.
        """
        parent = self.tree.parent(mention)
        if isinstance(mention.ctx, ast.Store):
            function = self.program.definitions_of(mention).function_around(mention)
            return function is not None and function.name == "__init__"
        if self._switch(mention) is not None:
            return not _changes(mention, parent)
        return (
            self._is_given_to_optimizer(mention)
            or self._is_given_to_what_is_read(mention)
            or (isinstance(parent, ast.Subscript) and isinstance(self.tree.parent(parent), ast.AugAssign))
        )

    def _is_given_to_what_is_read(self, mention: ast.Attribute) -> bool:
        """Whether an attribute is an argument of an interpreted function, whose uses are known."""
        call = self.tree.parent(mention)
        if not isinstance(call, ast.Call) or mention not in call.args:
            return False
        called = self.program.definitions_of(mention).defined(dotted(call.func))
        return isinstance(called, FunctionInfo) and called in self.program.observations.interpreted

    def _is_given_to_optimizer(self, mention: ast.Attribute) -> bool:
        made = {item.site for item in self.ownership.stepped if isinstance(item, Optimizer)}
        return any(isinstance(item, ast.Call) and site_of(item) in made for item in self.tree.ancestors(mention))

    def _switch(self, node: ast.AST) -> Site | None:
        """The block or decorator of the function around a node that switches gradients off."""
        for item in self.tree.ancestors(node):
            if isinstance(item, (ast.With, ast.AsyncWith)):
                for entered in item.items:
                    mode = self._mode(entered.context_expr)
                    if mode is not None:
                        return site_of(entered.context_expr) if mode is api.GradMode.OFF else None
            if isinstance(item, (*FUNCTIONS, ast.Lambda)):
                decorators = [] if isinstance(item, ast.Lambda) else item.decorator_list
                off = (one for one in decorators if self._mode(one) is api.GradMode.OFF)
                return next(map(self.tree.decorator_site, off), None)
        return None

    def _mode(self, node: ast.expr) -> api.GradMode | None:
        """The grad mode that a context manager or decorator switches to."""
        call = node if isinstance(node, ast.Call) else None
        name = self.program.definitions_of(node).qualified(dotted(call.func if call is not None else node), node)
        given = call.args[0] if call is not None and call.args else None
        if name in api.SET_GRAD_MODE:
            off = given is not None and is_literal(given, False)
            return api.GradMode.OFF if off else api.GradMode.UNKNOWN
        mode = api.GRAD_MODES.get(name)
        return mode if given is None or mode is None else api.GradMode.UNKNOWN


def _uses(part: Value, made_of: set[Value]) -> list[Tensor]:
    """The values computed from a part, among the inputs of another value."""
    either = set(inputs_of(part))
    return [item for item in made_of if isinstance(item, Tensor) and not either.isdisjoint(map(resolved, item.parents))]


def _module_run(value: Value) -> Module | None:
    """The module that a value is the output of, with gradients on."""
    if not isinstance(value, ModuleOutput) or value.mode is not api.GradMode.ON:
        return None
    module = resolved(value.parents[0])
    return module if isinstance(module, Module) else None


def _reached_by(site: Site, use: Site) -> Site:
    """A site in the file for a use, reached by the same call."""
    return use._replace(inner=site.inner) if site.inner is not None else site


def _unpacked(value: Value) -> list[Value]:
    value = resolved(value)
    return value.elements() if isinstance(value, Container) else [value]


def _changes(mention: ast.Attribute, parent: ast.AST | None) -> bool:
    """Whether the code changes a part, rather than computing with it: `self.average.weight.copy_(w)`."""
    if isinstance(parent, ast.Call) and parent.func is mention:
        return False
    if isinstance(parent, (ast.Attribute, ast.AugAssign, ast.For)):
        return not isinstance(parent, ast.Attribute) or parent.attr not in api.TENSOR_METHODS - INPLACE
    return isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
