"""The graphs that values carry, their contents, and the backward passes through them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchlint.model.frozen import Frozen
from torchlint.model.graph_cuts import CUTTING, is_cut
from torchlint.model.kinds import INDEX
from torchlint.model.lineage import after_loops, graph_inputs, opened, result_of_call, whole_of
from torchlint.model.loss_marks import LossMarks
from torchlint.model.module_graphs import ModuleGraphs
from torchlint.model.module_values import GIVEN_TO_FORWARD, is_forward, is_module, returned_by
from torchlint.model.parameterless import is_buffer
from torchlint.model.values import (
    FILLED,
    Answer,
    Attribute,
    BoundMethod,
    CallResult,
    Component,
    Container,
    Element,
    External,
    Function,
    Gradient,
    Instance,
    Iteration,
    Module,
    ModuleOutput,
    Optimizer,
    Parameter,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.model.whole_steps import may_evaluate_itself
from torchlint.pytorch import api, naming
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site

_CHANGING = ("pop", "__setitem__")
"""Uses of a dictionary that take a loss out, or replace it."""


class Tracking:
    """Answers about values, once the whole module has been interpreted."""

    def __init__(self, losses: Iterable[Value], frozen: Frozen) -> None:
        self._frozen = frozen
        self.backpropagated: set[Value] = set()
        """Values that received a backward pass: tracked, regardless of other facts about them."""
        self.trained: set[Value | Site | None] = set()
        """The callees called like modules in the graph of a loss, and their sites.

        Other calls of them, and in other contexts, have a graph as well.
        """
        self._answers: dict[Value, Answer] = {}
        self._settled: set[Value] = set()
        self._pending: list[Value] = []
        self._circular = False
        self._passes: dict[tuple[Value, bool], set[Value]] = {}
        self._modules = ModuleGraphs(self, frozen)
        self._learn_from(list(losses))

    def _learn_from(self, losses: list[Value]) -> None:
        """Mark the facts that losses show, and forget earlier answers."""
        marks = LossMarks(self, self._modules)
        for loss in losses:
            marks.mark(loss)
        for loss in losses:
            self._answers.clear()
            marks.mark_module_calls(self.graph(loss))
            self._answers.clear()
            self._settled.clear()

    # -- tracked ------------------------------------------------------------------------------------

    def tracked(self, value: Value) -> Answer:
        """Whether a value carries a graph."""
        known = self._answers.get(value)
        if known is not None:
            return known
        if value in self._pending:
            self._circular = True
            return Answer.NO
        self._pending.append(value)
        answer = self._answers[value] = self._tracked(value)
        self._pending.pop()
        if not self._pending and self._circular:
            self._forget_provisional(value)
        return answer

    def tracked_in_calls(self, value: Value, calls: Sequence[ModuleOutput]) -> Answer:
        """Whether a value carries a graph that calls of modules compute, the outermost call first."""
        return self._modules.tracked_inside(value, calls[-1], calls[:-1]) if calls else self.tracked(value)

    def _forget_provisional(self, asked: Value) -> None:
        """Forget answers from inside a cycle unless they are YES; the requested answer holds."""
        self._circular = False
        self._answers = {
            value: answer for value, answer in self._answers.items() if answer is Answer.YES or value in self._settled
        }
        self._settled.add(asked)

    def _tracked(self, value: Value) -> Answer:
        if isinstance(value, Plain):
            return Answer.NO
        if isinstance(value, Tensor):
            return self._tracked_tensor(value)
        if isinstance(value, Phi):
            return self._tracked_phi(value)
        if isinstance(value, Container):
            others = (Answer.UNKNOWN,) if value.is_open or value.has_use(FILLED) else ()
            return Answer.any_of((*map(self.tracked, value.elements()), *others))
        if isinstance(value, Unknown):
            return self._tracked_unknown(value)
        if isinstance(value, Parameters):
            return Answer.YES
        return Answer.NO if isinstance(value, (Function, Module, Optimizer, External)) else Answer.UNKNOWN

    def _tracked_phi(self, value: Phi) -> Answer:
        """The answer for one of several values.

        `loss.item() if distributed else loss` may be the number, or `loss.detach()` the tensor. A value drawn from a
        container is each of its items in turn.
        """
        answer = Answer.any_of(self.tracked(item) for item in value.parents)
        if value.is_keyed and answer is Answer.YES:
            return answer if all(self.tracked(item) is answer for item in inputs_of(value)) else Answer.UNKNOWN
        is_one = value.source is None and not value.is_loop
        return Answer.UNKNOWN if answer is Answer.YES and is_one and any(map(is_cut, value.parents)) else answer

    def _tracked_tensor(self, value: Tensor) -> Answer:
        if value.leaf:
            return Answer.YES
        if value.op in CUTTING or value.has_use(INDEX):
            return Answer.NO
        if value.mode is GradMode.OFF:
            if value.base is not None and not isinstance(value, ModuleOutput):
                return self.tracked(value.base)
            return Answer.NO
        if isinstance(value, ModuleOutput):
            inner = self._modules.output_tracks(value)
        elif isinstance(value, Component):
            inner = self._modules.component_tracks(value)
        else:
            inner = Answer.any_of(self.tracked(item) for item in graph_inputs(value))
        if isinstance(value, ModuleOutput) and value.has_use(*_CHANGING):
            return Answer.UNKNOWN
        if inner is not Answer.NO and value in self.backpropagated:
            return Answer.YES
        return Answer.UNKNOWN if inner is Answer.YES and value.mode is GradMode.UNKNOWN else inner

    def tracked_in_training(self, value: Value) -> Answer:
        """Whether a value carries a graph if a backward pass goes through its inputs.

        Then a variable that decides on gradients, as in `set_grad_enabled(training)`, has switched them on.
        """
        if isinstance(value, Tensor) and value.mode is GradMode.UNKNOWN and value.op not in CUTTING:
            if any(self._went_backward(item) for item in graph_inputs(value)):
                return Answer.YES
        return self.tracked(value)

    def _went_backward(self, value: Value) -> bool:
        """Whether a backward pass went into a result computed while a variable decided on gradients."""
        has_mode = isinstance(value, (Tensor, Unknown)) and value.mode is GradMode.UNKNOWN
        return has_mode and value in self.backpropagated and self.tracked(value) is Answer.YES

    def _tracked_unknown(self, value: Unknown) -> Answer:
        call = result_of_call(value)
        if call is not None and (value.mode is GradMode.OFF or value.has_use(INDEX)):
            return Answer.NO
        if isinstance(value, CallResult) and value.has_use(*_CHANGING):
            return Answer.UNKNOWN
        if value in self.backpropagated:
            return Answer.YES
        if call is not None and _counts(call):
            return Answer.NO
        if isinstance(value, Gradient) or (isinstance(value, Attribute) and is_buffer(value)):
            return Answer.NO
        if call is not None and call.callee is not None and call.callee.label == "state_dict":
            keeps_vars = any(isinstance(item, Plain) and item.constant is True for item in call.parents)
            return Answer.UNKNOWN if keeps_vars else Answer.NO
        if isinstance(value, Iteration):
            return Answer.UNKNOWN if self._is_of_what_was_kept(value) else Answer.NO
        if isinstance(value, (Attribute, Element)) and value.parents and self.is_data(value):
            return Answer.NO
        if isinstance(value, CallResult) and value.callee is not None:
            if self._modules.adds_no_graph(value.callee, value.parents):
                return Answer.NO
            if is_forward(value) and may_evaluate_itself(value):
                return Answer.UNKNOWN
            trained = resolved(value.callee) in self.trained or value.site in self.trained
            if not trained and self._frozen.may_be(resolved(value.callee)):
                return self._modules.through_frozen(value.parents)
            if trained or is_module(value.callee) is Answer.YES:
                return Answer.UNKNOWN if value.mode is GradMode.UNKNOWN else Answer.YES
            if value.mode is GradMode.ON and naming.LOSS.search(value.callee.label):
                return self._tracked_loss(value, value.callee)
            if isinstance(value.callee, External) and api.gives_no_tensor(value.callee.name):
                return Answer.NO
        return Answer.UNKNOWN

    def _tracked_loss(self, value: Unknown, callee: Value) -> Answer:
        """A value called as a loss has the graph of its inputs, but `loss.get_loss()` may be a number."""
        owner = callee.parents[0] if isinstance(callee, BoundMethod) else None
        answers = {item: self.tracked(item) for item in value.parents}
        if owner is not None and answers.get(owner) is Answer.YES:
            answers[owner] = Answer.UNKNOWN
        return Answer.any_of(answers.values())

    def is_data(self, value: Value) -> bool:
        """Whether a value is part of a loader's batch."""
        whole = whole_of(value)
        if not isinstance(whole, Iteration) or whole in self.backpropagated:
            return False
        return not self._is_of_what_was_kept(whole)

    def _is_of_what_was_kept(self, value: Unknown) -> bool:
        """Whether a loop iterates over graphs that the program stored, or that a module returned.

        These are in a list of the program, in the results of a module, or in a dictionary that is no batch:
        `for name, loss in f(batch).items()`.
        """
        inside = [item for parent in value.parents for item in inputs_of(parent)]
        of_calls = [item for item in inside if isinstance(item, Unknown)]
        if any(self._is_of_dictionary(item) or self._is_of_forward(item) or _is_given(item) for item in of_calls):
            return True
        return any(self.tracked(item) is Answer.YES for item in inside if isinstance(item, (Container, Tensor)))

    def _is_of_dictionary(self, value: Unknown) -> bool:
        """Whether a value is a dictionary's content, `losses.items()`, which may hold graphs."""
        read = value.callee if isinstance(value, CallResult) else None
        if not isinstance(read, BoundMethod) or read.label not in ("items", "values"):
            return False
        return any(self.tracked(item) is not Answer.NO for item in read.parents)

    def _is_of_forward(self, value: Unknown) -> bool:
        """Whether a value is the output of an unknown module with gradients on, or a part of it."""
        call = result_of_call(value)
        return call is not None and is_forward(call) and self.tracked(call) is not Answer.NO

    # -- graphs -------------------------------------------------------------------------------------

    def pass_through(self, outputs: Value, *, carried: bool = True) -> set[Value]:
        """The graph of a backward pass from a value, computed once."""
        key = (outputs, carried)
        known = self._passes.get(key)
        if known is None:
            known = self._passes[key] = self.graph(outputs, carried=carried)
        return known

    def surely_through(self, outputs: Value) -> set[Value]:
        """As `pass_through`, without carried values.

        For an unknown item of a container, only the values in the graphs of all its items.
        """
        return self.graph(outputs, carried=False, sure=True)

    def graph(self, value: Value, *, carried: bool = True, sure: bool = False) -> set[Value]:
        """The results of calls and operators in a value's graph.

        With `carried`, also the values that earlier iterations of a loop left behind.
        """
        found: set[Value] = set()
        given: set[Value] = set()
        stack = [value]
        while stack:
            item = stack.pop()
            if item in found or isinstance(item, (Plain, Module, Optimizer, Function, External)):
                continue
            if not isinstance(item, (Phi, Container, Instance)) and self.tracked(item) is Answer.NO:
                continue
            found.add(item)
            if isinstance(item, Phi) and item.source is not None:
                found.add(item.source)
                if sure and len(item.parents) > 1:
                    found |= set.intersection(*(self.graph(part, carried=carried) for part in item.parents))
                    continue
            if isinstance(item, Phi) and item.is_loop and not carried:
                stack.extend(item.parents[:1])
            elif isinstance(item, Phi):
                stack.extend(item.parents if item.is_loop else after_loops(item))
            elif isinstance(item, Container):
                stack.extend(item.elements())
            else:
                parts: Iterable[Value] = graph_inputs(item) if isinstance(item, Tensor) else item.parents
                parts = self._sure_inputs(item, parts) if sure and isinstance(item, ModuleOutput) else parts
                stack.extend(opened(parts, item, given))
        return found | given

    def _sure_inputs(self, output: ModuleOutput, inputs: Iterable[Value]) -> list[Value]:
        """The inputs of a module from which each `return` of its `forward` has a graph."""
        body = returned_by(output)
        results = list(inputs_of(body)) if body is not None else []
        used = [{item.label for item in self.graph(result) if isinstance(item, Parameter)} for result in results]
        always = set.intersection(*used) if len(used) > 1 else output.given.keys()
        others = {resolved(item) for name, item in output.given.items() if name not in always}
        return [item for item in inputs if resolved(item) not in others]


def _is_given(value: Unknown) -> bool:
    """Whether a value is an input of a `forward`, or a parameter with the name of a module's output."""
    is_output = isinstance(value, Parameter) and naming.OUTPUTS.search(value.label) is not None
    return is_output or whole_of(value).has_use(GIVEN_TO_FORWARD)


def _counts(call: Unknown) -> bool:
    """Whether the name of a call says that it counts correct predictions."""
    return isinstance(call, CallResult) and call.callee is not None and bool(naming.COUNTING.search(call.callee.label))
