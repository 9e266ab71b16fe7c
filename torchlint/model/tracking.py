"""Which values carry a graph, what graph it is, and who passes backward through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchlint.model.frozen import Frozen
from torchlint.model.lineage import after_loops, graph_inputs, result_of_call
from torchlint.model.module_values import (
    called_like_module,
    has_parameters,
    is_forward,
    is_module,
    modules_of,
    returned_by,
    returned_parts,
)
from torchlint.model.parameterless import is_buffer
from torchlint.model.values import (
    Answer,
    Container,
    External,
    Function,
    Instance,
    Module,
    Optimizer,
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
from torchlint.pytorch.autograd_table import NOT_DIFFERENTIABLE, OPERATORS
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site

_LETTING_GO = frozenset({"detach", "data", "numpy"})
_CUTTING = _LETTING_GO | {"new", "compare", "bitwise"} | NOT_DIFFERENTIABLE
_TERMS = frozenset(
    {
        "add",
        "sub",
        "neg",
        "scale",
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "mean",
        "sum",
        "stack",
        "squeeze",
        "view",
        "reshape",
    }
)
LOSSES = frozenset(name for name in OPERATORS if name.endswith(("_loss", "cross_entropy", "_div", "_with_logits")))


class Tracking:
    """Answers about values, once the whole module has been interpreted."""

    def __init__(self, losses: Iterable[Value], frozen: Frozen) -> None:
        self._frozen = frozen
        self._by_frozen: dict[Value, bool] = {}
        self.backpropagated: set[Value] = set()
        """Values that a backward pass went into: tracked, whatever else is known of them."""
        self.trained: set[Value | Site | None] = set()
        """What was called like a module in the graph of a loss, and where: other calls of it, and in other contexts,
        have a graph as well."""
        self._answers: dict[Value, Answer] = {}
        self._settled: set[Value] = set()
        self._from_module: dict[Value, bool] = {}
        """Whether values come from a module, as far as that was asked."""
        self._pending: list[Value] = []
        self._circular = False
        self._passes: dict[tuple[Value, bool], set[Value]] = {}
        losses = list(losses)
        for loss in losses:
            self._mark(loss)
        for loss in losses:
            self._mark_module_calls(loss)

    def _mark(self, loss: Value) -> None:
        """The loss, the terms it is the sum of, and every value that its graph can only come from."""
        stack, seen = [(loss, True)], set[Value]()
        while stack:
            value, certain = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if certain or self._is_loss(value):
                self.backpropagated.add(value)
                if isinstance(value, Unknown) and value.origin == "iteration":
                    self._from_module.clear()  # it is no data
            if isinstance(value, (Phi, Container)):
                parts = value.elements() if isinstance(value, Container) else value.parents
                is_one = isinstance(value, Phi) and value.is_keyed
                stack.extend((item, certain and not is_one) for item in parts if not isinstance(item, Plain))
            elif isinstance(value, Tensor) and value.mode is GradMode.OFF and value.base is not None:
                stack.append((value.base, certain))
            elif isinstance(value, Tensor) and value.mode is not GradMode.OFF and value.op not in _CUTTING:
                only = self._only_source(value)
                if only is not None:
                    stack.append((only, certain))
                elif value.op in _TERMS:
                    stack.extend((item, False) for item in value.parents)

    def _mark_module_calls(self, loss: Value) -> None:
        """What is called like a module, with gradients on, in the graph of a loss gives a part of that graph."""
        self._answers.clear()
        for value in self.graph(loss):
            if isinstance(value, Unknown) and value.origin == "call" and value.mode is GradMode.ON:
                if value.callee is not None and is_forward(value):
                    self.backpropagated.add(value)
                    self.trained.update((resolved(value.callee), value.site))
        self._answers.clear()
        self._settled.clear()

    def _only_source(self, value: Tensor) -> Value | None:
        """The one operand that a tensor's graph can come from: the others are numbers, data or detached."""
        if value.op == "module":
            return None
        sources = [item for item in graph_inputs(value) if not self._cannot_track(item)]
        if len(sources) > 1:
            sources = [item for item in sources if self._comes_from_module(item) and not self._is_of_frozen(item)]
        return sources[0] if len(sources) == 1 else None

    def _cannot_track(self, value: Value) -> bool:
        value = resolved(value)
        if isinstance(value, Tensor):
            return value.op in _CUTTING or (value.mode is GradMode.OFF and not value.leaf and value.base is None)
        return not isinstance(value, (Unknown, Phi, Container)) or self._is_data(value)

    def _comes_from_module(self, value: Value) -> bool:
        """Whether a value is computed by what is, or is called like, a module."""
        user: dict[Value, Value | None] = {}
        """Each value that was looked at, with the one that is computed of it."""
        stack: list[tuple[Value, Value | None]] = [(value, None)]
        while stack:
            item, used_by = stack.pop()
            if item in user or self._from_module.get(item) is False or self._cannot_track(item):
                continue
            user[item] = used_by
            if self._from_module.get(item) or _is_made_by_module(item):
                self._from_module.update(dict.fromkeys(_chain(item, user), True))
                return True
            if isinstance(item, (Tensor, Phi)) or (
                isinstance(item, Unknown) and item.origin in ("element", "attribute")
            ):
                stack.extend((parent, item) for parent in item.parents)
        self._from_module.update(dict.fromkeys(user, False))
        return False

    def _is_loss(self, value: Value) -> bool:
        """Whether a term of a loss is one itself: the result of a call or of a loss function."""
        if isinstance(value, Unknown):
            return value.origin == "call" or (
                value.origin in ("attribute", "element") and result_of_call(value) is not None
            )
        if not isinstance(value, Tensor) or self._is_of_frozen(value):
            return False
        return value.op in ("module", "component") or value.op in LOSSES

    def _is_of_frozen(self, value: Value) -> bool:
        """Whether a value is what a module computes that may be frozen, or whose parts that compute it may be: a
        teacher's, beside the student's."""
        value = resolved(value)
        if not isinstance(value, Tensor) or value.op != "module":
            return False
        returned = returned_by(value)
        return self._frozen.may_be(resolved(value.parents[0])) or (
            returned is not None and self._is_by_frozen(returned)
        )

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

    def _forget_provisional(self, asked: Value) -> None:
        """Answers found inside a cycle hold only if they are YES; the one that was asked for holds."""
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
            return _any(self.tracked(item) for item in value.elements())
        if isinstance(value, Unknown):
            return self._tracked_unknown(value)
        if isinstance(value, Parameters):
            return Answer.YES
        return Answer.NO if isinstance(value, (Function, Module, Optimizer, External, Instance)) else Answer.UNKNOWN

    def _tracked_phi(self, value: Phi) -> Answer:
        """One of several: `loss.item() if distributed else loss` may be the number, or `loss.detach()` the tensor.

        What is drawn from a container is each of them in turn.
        """
        answer = _any(self.tracked(item) for item in value.parents)
        if value.is_keyed and answer is Answer.YES:
            return answer if all(self.tracked(item) is answer for item in inputs_of(value)) else Answer.UNKNOWN
        is_one = value.source is None and not value.is_loop
        return Answer.UNKNOWN if answer is Answer.YES and is_one and any(map(_is_number, value.parents)) else answer

    def _tracked_tensor(self, value: Tensor) -> Answer:
        if value.leaf:
            return Answer.YES
        if value.op in _CUTTING:
            return Answer.NO
        if value.op == "inplace-result":
            return Answer.UNKNOWN
        if value.mode is GradMode.OFF:
            if value.base is not None and value.op not in ("module",):
                return self.tracked(value.base)
            return Answer.NO
        if value.op == "module":
            inner = self._module_tracks(value)
        elif value.op == "component":
            inner = self._component_tracks(value)
        else:
            inner = _any(self.tracked(item) for item in graph_inputs(value))
        if value.op == "module" and value.has_use("pop"):
            return Answer.UNKNOWN  # a dictionary, whose loss was perhaps taken out
        if inner is not Answer.NO and value in self.backpropagated:
            return Answer.YES
        return Answer.UNKNOWN if inner is Answer.YES and value.mode is GradMode.UNKNOWN else inner

    def _component_tracks(self, value: Tensor) -> Answer:
        whole = value.parents[0]
        returned = returned_parts(value)
        inside = _any(self._tracked_inside(item, whole) for item in returned) if returned else Answer.UNKNOWN
        if self.tracked(whole) is Answer.NO or inside is Answer.NO:
            return Answer.NO
        if inside is Answer.YES and any(map(_is_number, returned)):
            return Answer.UNKNOWN
        if inside is Answer.YES and self.tracked(whole) is Answer.YES:
            return Answer.YES
        if (
            isinstance(whole, Tensor)
            and isinstance(whole.parents[0], Module)
            and whole.parents[0].name.rpartition(".")[2] in api.RECURRENT
        ):
            return self.tracked(whole)
        if isinstance(whole, Tensor) and naming.LOSS.search(resolved(whole.parents[0]).label):
            return Answer.UNKNOWN  # beside the loss such a function returns numbers, often in a dictionary
        if value.has_use("sum()") and value not in self.backpropagated:
            return Answer.UNKNOWN  # Python sums lists: these may be lengths
        return Answer.YES if whole in self.backpropagated else Answer.UNKNOWN

    def _tracked_inside(self, returned: Value, whole: Value) -> Answer:
        """Whether what a `forward` returns carries a graph, where it is given what it is in this call."""
        answer = self.tracked(returned)
        if answer is not Answer.UNKNOWN or not isinstance(whole, Tensor):
            return answer
        stack, seen, answers = [resolved(returned)], set[Value](), {Answer.NO}
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            whose = _whole(value)
            if isinstance(whose, Unknown) and whose.origin == "parameter" and whose.label in whole.given:
                answers.add(self.tracked(whole.given[whose.label]))
            elif self.tracked(value) is not Answer.NO:
                inputs = _inputs_here(value)
                stack += map(resolved, inputs)
                answers |= set() if inputs else {Answer.UNKNOWN}
        return Answer.YES if Answer.YES in answers else Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.NO

    def _module_tracks(self, value: Tensor) -> Answer:
        """The output of a module: of its parameters, or of its input where it has none."""
        module = value.parents[0]
        if not has_parameters(module):
            return _any(self.tracked(item) for item in value.parents[1:])
        returned = returned_by(value)
        if returned is not None and self.tracked(returned) is Answer.NO:
            return Answer.NO
        if _is_of_unknown_class(module) and self._adds_no_graph(module, value.parents[1:]):
            return Answer.NO
        if self._frozen.may_be(resolved(module)) or (returned is not None and self._is_by_frozen(returned)):
            return self._through_frozen(value.parents[1:])
        return Answer.YES if isinstance(module, (Module, Unknown)) else Answer.UNKNOWN

    def _is_by_frozen(self, returned: Value) -> bool:
        """Whether what a `forward` returns has a graph only where what it is given has one: parts that may be frozen
        compute it."""
        if self.tracked(returned) is not Answer.UNKNOWN:
            return False
        if returned not in self._by_frozen:
            called = set(modules_of(self.graph(returned)))
            self._by_frozen[returned] = bool(called) and all(map(self._frozen.may_be, called))
        return self._by_frozen[returned]

    def _through_frozen(self, given: Iterable[Value]) -> Answer:
        """The output of a module that may be frozen has a graph for certain if what it is given has one."""
        return Answer.YES if _any(map(self.tracked, given)) is Answer.YES else Answer.UNKNOWN

    def _adds_no_graph(self, callee: Value, given: Iterable[Value]) -> bool:
        """Whether what is called is a criterion by its name, which seldom has parameters, and is given no graph."""
        return bool(naming.LOSS.search(callee.label)) and _any(map(self.tracked, given)) is Answer.NO

    def _tracked_unknown(self, value: Unknown) -> Answer:
        call = result_of_call(value)
        if call is not None and value.mode is GradMode.OFF:
            return Answer.NO
        if value in self.backpropagated:
            return Answer.YES
        if call is not None and _counts(call):
            return Answer.NO
        if value.origin == "grad" or (value.origin == "attribute" and is_buffer(value)):
            return Answer.NO
        if value.origin == "iteration":
            return Answer.UNKNOWN if self._is_of_what_was_kept(value) else Answer.NO
        if value.origin in ("attribute", "element") and value.parents and self._is_data(value):
            return Answer.NO
        if value.origin == "call" and value.callee is not None:
            if self._adds_no_graph(value.callee, value.parents):
                return Answer.NO
            if is_forward(value) and may_evaluate_itself(value):
                return Answer.UNKNOWN
            trained = resolved(value.callee) in self.trained or value.site in self.trained
            if not trained and self._frozen.may_be(resolved(value.callee)):
                return self._through_frozen(value.parents)
            if trained or is_module(value.callee) is Answer.YES:
                return Answer.UNKNOWN if value.mode is GradMode.UNKNOWN else Answer.YES
            if value.mode is GradMode.ON and naming.LOSS.search(value.callee.label):
                return self._tracked_loss(value, value.callee)
            if isinstance(value.callee, External) and api.package(value.callee.name) in api.PLAIN_PACKAGES:
                return Answer.NO
        return Answer.UNKNOWN

    def _tracked_loss(self, value: Unknown, callee: Value) -> Answer:
        """What is called as a loss has the graph of what it is given, but `loss.get_loss()` may be a number."""
        owner = callee.parents[0] if isinstance(callee, Unknown) and callee.origin == "method" else None
        answers = {item: self.tracked(item) for item in value.parents}
        if owner is not None and answers.get(owner) is Answer.YES:
            answers[owner] = Answer.UNKNOWN
        return _any(answers.values())

    def _is_data(self, value: Value) -> bool:
        """A part of what a loader yields."""
        whole = _whole(value)
        if not isinstance(whole, Unknown) or whole.origin != "iteration" or whole in self.backpropagated:
            return False
        return not self._is_of_what_was_kept(whole)

    def _is_of_what_was_kept(self, value: Unknown) -> bool:
        """Whether a loop goes over a list of this program's own into which tensors with a graph were put, or over
        results of a module."""
        inside = [item for parent in value.parents for item in inputs_of(parent)]
        if any(isinstance(item, Unknown) and self._is_of_forward(item) for item in inside):
            return True
        return any(self.tracked(item) is Answer.YES for item in inside if isinstance(item, (Container, Tensor)))

    def _is_of_forward(self, value: Unknown) -> bool:
        """Whether a value is what a module of unknown make gives, or a part of that, with gradients on."""
        call = result_of_call(value)
        return call is not None and is_forward(call) and self.tracked(call) is not Answer.NO

    # -- graphs -------------------------------------------------------------------------------------

    def pass_through(self, outputs: Value, *, carried: bool = True) -> set[Value]:
        """The graph that a backward pass goes through from a value, worked out once."""
        key = (outputs, carried)
        known = self._passes.get(key)
        if known is None:
            known = self._passes[key] = self.graph(outputs, carried=carried)
        return known

    def surely_through(self, outputs: Value) -> set[Value]:
        """As `pass_through` without what is carried, but of what is drawn from a container, nobody knows which, only
        what all that is in there goes through."""
        return self.graph(outputs, carried=False, sure=True)

    def graph(self, value: Value, *, carried: bool = True, sure: bool = False) -> set[Value]:
        """The results of calls and operators that a value's graph goes through.

        With `carried`, also through what earlier iterations of a loop left behind.
        """
        found: set[Value] = set()
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
                stack.extend(graph_inputs(item) if isinstance(item, Tensor) else item.parents)
        return found


def _counts(call: Unknown) -> bool:
    """Whether a call is of what counts right answers, by its name."""
    return call.origin == "call" and call.callee is not None and bool(naming.COUNTING.search(call.callee.label))


def _is_of_unknown_class(module: Value) -> bool:
    """Whether nothing but that it is a module is known: a parameter that is annotated as one."""
    return not isinstance(module, Module) or (module.info is None and "." not in module.name)


def _inputs_here(value: Value) -> Sequence[Value]:
    """What the graph of a value of a `forward` may come from in that `forward` itself."""
    if isinstance(value, Container):
        return value.elements()
    return graph_inputs(value) if isinstance(value, Tensor) and value.op != "module" else ()


def _whole(value: Value) -> Value:
    """What a value is an element or attribute of, however deep."""
    while isinstance(value, Unknown) and value.origin in ("attribute", "element") and value.parents:
        value = value.parents[0]
    return value


def _chain(value: Value, user: dict[Value, Value | None]) -> Iterator[Value]:
    """A value, what is computed of it, and so on."""
    item: Value | None = value
    while item is not None:
        yield item
        item = user[item]


def _is_made_by_module(value: Value) -> bool:
    """Whether a value is a leaf, or the result of what is, or is called like, a module."""
    if isinstance(value, Tensor):
        return value.op == "module" or value.leaf
    callee = value.callee if isinstance(value, Unknown) and value.origin == "call" else None
    return callee is not None and called_like_module(callee)


def _is_number(value: Value) -> bool:
    """Whether a value is what a tensor gives when its graph is let go of: `loss.item()`, `loss.detach().cpu()`."""
    while isinstance(value, Tensor) and value.op not in _LETTING_GO and len(value.parents) == 1:
        value = resolved(value.parents[0])
    if isinstance(value, Plain):
        return not value.is_literal
    return isinstance(value, Tensor) and value.op in _LETTING_GO


def _any(answers: Iterable[Answer]) -> Answer:
    found = Answer.NO
    for answer in answers:
        if answer is Answer.YES:
            return Answer.YES
        if answer is Answer.UNKNOWN:
            found = Answer.UNKNOWN
    return found
