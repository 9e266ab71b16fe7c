"""Graphs of module outputs: from their parameters, their inputs, or parts that may be frozen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchlint.model.frozen import Frozen
from torchlint.model.graph_answers import GraphAnswers
from torchlint.model.graph_cuts import is_cut
from torchlint.model.lineage import graph_inputs, whole_of
from torchlint.model.module_values import has_parameters, modules_of, returned_by, returned_parts
from torchlint.model.values import (
    Answer,
    Container,
    Module,
    ModuleOutput,
    Parameter,
    Phi,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    meanings,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.pytorch.effects import GradMode


class ModuleGraphs:
    """Answers about outputs of modules, known or recognized by name."""

    def __init__(self, tracking: GraphAnswers, frozen: Frozen) -> None:
        self._tracking = tracking
        self._frozen = frozen
        self._by_frozen: dict[tuple[Value, Value], bool] = {}

    def output_tracks(self, value: ModuleOutput) -> Answer:
        """The graph of a module's output: from its parameters, or from its input if it has none."""
        module, returned = value.parents[0], returned_by(value)
        if returned is not None and any(isinstance(item, Module) for item in inputs_of(returned)):
            return Answer.UNKNOWN  # itself, which holds its results
        inside = self.tracked_inside(returned, value) if returned is not None else Answer.UNKNOWN
        if inside is Answer.NO:
            return Answer.NO
        if not has_parameters(module):
            given = Answer.any_of(self._tracking.tracked(item) for item in value.parents[1:])
            return inside if inside is Answer.YES else given  # from modules that its `__init__` receives
        if returned is not None and self._depends(returned):
            return Answer.UNKNOWN
        if _is_of_unknown_class(module) and self.adds_no_graph(module, value.parents[1:]):
            return Answer.NO
        if self._frozen.may_be(resolved(module)) or (
            returned is not None and self._is_by_frozen(returned, resolved(module))
        ):
            return self.through_frozen(value.parents[1:])
        return Answer.YES if isinstance(module, (Module, Unknown)) else Answer.UNKNOWN

    def _depends(self, returned: Value) -> bool:
        """Whether the graph of a `forward`'s result depends on something, perhaps the mode of the module.

        `return out if self.training else out.detach()`.
        """
        if isinstance(returned, Phi):
            return any(self._tracking.tracked(item) is Answer.NO for item in meanings(returned))
        return isinstance(returned, Tensor) and returned.mode is GradMode.UNKNOWN

    def component_tracks(self, value: Tensor) -> Answer:
        whole = value.parents[0]
        returned = returned_parts(value)
        inside = Answer.any_of(self.tracked_inside(item, whole) for item in returned) if returned else Answer.UNKNOWN
        if self._tracking.tracked(whole) is Answer.NO or inside is Answer.NO:
            return Answer.NO
        if inside is Answer.UNKNOWN and returned and all(self._is_of_own_part(item, whole) for item in returned):
            inside = Answer.YES
        if inside is Answer.YES and any(map(is_cut, returned)):
            return Answer.UNKNOWN
        if inside is Answer.YES and self._tracking.tracked(whole) is Answer.YES:
            return Answer.YES
        if (
            isinstance(whole, Tensor)
            and isinstance(whole.parents[0], Module)
            and whole.parents[0].name.rpartition(".")[2] in api.RECURRENT
        ):
            return self._tracking.tracked(whole)
        if isinstance(whole, Tensor) and naming.LOSS.search(resolved(whole.parents[0]).label):
            return Answer.UNKNOWN  # besides the loss such a function returns numbers, often in a dictionary
        if value.has_use("sum()") and value not in self._tracking.backpropagated:
            return Answer.UNKNOWN  # Python sums lists: these may be lengths
        return Answer.YES if whole in self._tracking.backpropagated else Answer.UNKNOWN

    def tracked_inside(self, returned: Value, whole: Value, around: Sequence[ModuleOutput] = ()) -> Answer:
        """Whether the result of a `forward` has a graph for the arguments of this call, inside the calls around it."""
        answer = self._tracking.tracked(returned)
        if answer is not Answer.UNKNOWN or not isinstance(whole, ModuleOutput):
            return answer
        stack, seen, answers = [resolved(returned)], set[Value](), {Answer.NO}
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            whose = whole_of(value)
            if isinstance(whose, Parameter) and whose.label in whole.given:
                given = whole.given[whose.label]
                answers.add(
                    self.tracked_inside(given, around[-1], around[:-1]) if around else self._tracking.tracked(given)
                )
            elif self._tracking.tracked(value) is not Answer.NO:
                inputs = _inputs_here(value)
                stack += map(resolved, inputs)
                answers |= set() if inputs else {Answer.UNKNOWN}
        return Answer.any_of(answers)

    def is_of_frozen(self, value: Value) -> bool:
        """Whether the module that computes a value may be frozen, or its computing parts: a teacher's output."""
        value = resolved(value)
        if not isinstance(value, ModuleOutput):
            return False
        returned = returned_by(value)
        return self._frozen.may_be(resolved(value.parents[0])) or (
            returned is not None and self._is_by_frozen(returned, resolved(value.parents[0]))
        )

    def _is_by_frozen(self, returned: Value, owner: Value) -> bool:
        """Whether the result of a `forward` has a graph only if its input has one, because its parts may be frozen."""
        if self._tracking.tracked(returned) is not Answer.UNKNOWN:
            return False
        key = returned, owner
        if key not in self._by_frozen:
            called = set(modules_of(self._tracking.graph(returned)))
            may_be_inside = self._frozen.may_be_inside
            self._by_frozen[key] = bool(called) and all(may_be_inside(part, owner) for part in called)
        return self._by_frozen[key]

    def _is_of_own_part(self, value: Value, whole: Value) -> bool:
        """Whether a result of a `forward` is the output of a layer that only other objects of its class freeze."""
        value = resolved(value)
        if not isinstance(value, ModuleOutput) or value.mode is not GradMode.ON or not isinstance(whole, ModuleOutput):
            return False
        layer, owner = resolved(value.parents[0]), resolved(whole.parents[0])
        is_trained = self._frozen.may_be(layer) and not self._frozen.may_be_inside(layer, owner)
        return is_trained and has_parameters(layer) and not self._frozen.may_be(owner)

    def through_frozen(self, given: Iterable[Value]) -> Answer:
        """Whether the output of a module that may be frozen has a graph: certain only if its input has one."""
        return Answer.YES if Answer.any_of(map(self._tracking.tracked, given)) is Answer.YES else Answer.UNKNOWN

    def adds_no_graph(self, callee: Value, given: Iterable[Value]) -> bool:
        """Whether a callee is a criterion by its name, which seldom has parameters, and its inputs have no graph."""
        return bool(naming.LOSS.search(callee.label)) and Answer.any_of(map(self._tracking.tracked, given)) is Answer.NO


def _is_of_unknown_class(module: Value) -> bool:
    """Whether a module's class is unknown: a parameter annotated as a module."""
    return not isinstance(module, Module) or (module.info is None and "." not in module.name)


def _inputs_here(value: Value) -> Sequence[Value]:
    """The values of the `forward` itself from which the graph of one of its values may come."""
    if isinstance(value, (Container, Phi)):
        return value.elements() if isinstance(value, Container) else value.parents
    if isinstance(value, ModuleOutput):
        module = resolved(value.parents[0])
        is_plain = isinstance(module, Module) and module.info is None and not has_parameters(module)
        return value.parents[1:] if is_plain else ()
    return graph_inputs(value) if isinstance(value, Tensor) else ()
