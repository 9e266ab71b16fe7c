"""Endings: the operator that certainly produces a value, through modules and changes of its shape."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.events import Branch, Compute
from torchlint.model.module_values import is_as_made
from torchlint.model.program import Program
from torchlint.model.queries import losses
from torchlint.model.values import (
    FILLED,
    Component,
    Container,
    Dict,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch.api import GradMode
from torchlint.syntax.python_ast import Site, site_of

SHAPES = frozenset(
    "view reshape squeeze unsqueeze flatten transpose permute float double half to cuda cpu contiguous getitem".split()
)
"""Operators that keep the values of their input, all or some of them."""
BOUNDS = frozenset({"clamp", "clamp_min", "add"})
"""Operators that keep values away from a bound; `add` if it adds a number."""
_JOINING = frozenset({"stack", "cat", "concat", "concatenate"})
"""Operators whose result has the values of all elements of a list."""
_OF_MODULES = {
    "Softmax": "softmax",
    "Softmax2d": "softmax",
    "LogSoftmax": "log_softmax",
    "Sigmoid": "sigmoid",
    "LogSigmoid": "logsigmoid",
    "Dropout": "dropout",
    "ReLU": "relu",
    "Tanh": "tanh",
    "Linear": "linear",
    "Conv1d": "conv1d",
    "Conv2d": "conv2d",
    "Conv3d": "conv3d",
}
_LOGARITHMS = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}
"""The operator whose exponential is the result of another one."""


class Endings:
    """Finds the operators that produce values."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def of(
        self, value: Value, operators: Collection[str], through: Collection[str] = SHAPES, call: Tensor | None = None
    ) -> Site | None:
        """The site at which one of these operators surely produces a value, skipping operators in `through`.

        A value inside a module's `forward` is taken as in a `call` of the module.
        """
        return _Search(self._program, frozenset(operators), frozenset(through), call).of_value(value, frozenset())

    def operand(self, value: Value, operators: Collection[str], through: Collection[str], call: Tensor | None) -> Value:
        """The operand of the operator that `of` finds, as in a `call` of a module; the value itself if it is not plain.

        A value of the module's parameter is the one that the call passes.
        """
        search = _Search(self._program, frozenset(operators), frozenset(through), call)
        produced = search.source(search.in_call(resolved(value)))
        if not isinstance(produced, Tensor) or not produced.parents:
            return value
        if isinstance(produced, ModuleOutput):
            if produced.body is not None:
                return self.operand(produced.body, operators, through, produced)
            return search.in_call(resolved(produced.parents[-1]))
        return search.in_call(resolved(produced.parents[0])) if produced.op in operators else value

    def losses(self, *functions: str, besides: Collection[str] = ()) -> Iterator[tuple[Compute, Tensor]]:
        """The losses that the program computes by one of these PyTorch functions, or by its module.

        A loss that a module of the program computes has the call of that module as its event. A call of one of several
        modules counts once if each of them computes such a loss, or a loss `besides`.
        """
        for trace in self._program.traces:
            for event in trace.of(Compute):
                several = _several(event)
                if several is None or (besides and _is_among(several, event, functions, besides)):
                    yield from ((event, loss) for loss in _losses_of(event.value) if _is_one(loss, functions))

    def is_inside(self, event: Compute, loss: Tensor, source: Site) -> bool:
        """Whether a module that an event calls computes the loss and its input in one function, on every path.

        Then the loss has an answer at its own place, which is enough.
        """
        if event.value is loss or loss.site is None:
            return False
        nodes = self._program.tree.node(loss.site), self._program.tree.node(source)
        around = [self._function_of(node) for node in nodes]
        return around[0] is not None and around[0] is around[1]

    def _function_of(self, node: ast.AST) -> FunctionInfo | None:
        """The function that always runs a node; None if it runs the node under a condition."""
        definitions = self._program.definitions_of(node)
        function = definitions.function_around(node)
        for item in definitions.tree.ancestors(node):
            if function is None or item is function.node:
                return function
            if isinstance(item, (ast.If, ast.IfExp, ast.Match)):
                return None
        return None


def _is_among(several: Branch, event: Compute, functions: Collection[str], besides: Collection[str]) -> bool:
    """Whether an event is the first of these losses among the arms of a call, which all compute such a loss."""
    calls = [[item for item in arm if isinstance(item, Compute)] for arm in several.arms]
    if not all(len(arm) == 1 and _is_one(arm[0].value, {*functions, *besides}) for arm in calls):
        return False
    return event is next((arm[0] for arm in calls if _is_one(arm[0].value, functions)), None)


def _several(event: Compute) -> Branch | None:
    """The call that runs one of several modules under a condition, which may also decide the arguments."""
    branches = (branch for branch, _ in event.path if isinstance(branch, Branch))
    return next((branch for branch in branches if branch.site == event.site), None)


def _is_one(loss: Tensor, functions: Collection[str]) -> bool:
    return losses.loss_function(loss) in functions and bool(losses.operands(loss))


def _losses_of(value: Tensor) -> Iterator[Tensor]:
    """The possible losses: a value, and the values that its module's `forward` surely computed for it."""
    yield value
    stack: list[Value] = [value.body] if isinstance(value, ModuleOutput) and value.body is not None else []
    seen: set[Value] = set()
    while stack:
        item = resolved(stack.pop())
        if item in seen or not isinstance(item, (Tensor, Container)) or _has_no_graph(item):
            continue
        seen.add(item)
        stack.extend(item.parents)
        if isinstance(item, Tensor):
            yield item


def _has_no_graph(value: Value) -> bool:
    return isinstance(value, Tensor) and (value.op == operators.DETACH or value.mode is GradMode.OFF)


def _plain_forward(info: ClassInfo) -> FunctionInfo | None:
    """The `forward` of a class, if it receives the arguments of the object's call unchanged."""
    forward = info.method("forward")
    is_plain = forward is not None and not forward.decorators and info.method("__call__") is None
    return forward if is_plain else None


class _Search:
    """One query."""

    def __init__(
        self, program: Program, operators: frozenset[str], through: frozenset[str], call: Tensor | None
    ) -> None:
        self._program = program
        self._operators = operators
        self._through = through
        self._call = call

    def of_value(self, value: Value, seen: frozenset[Value]) -> Site | None:
        value = self.source(resolved(value))
        if value in seen:
            return None
        seen |= {value}
        if isinstance(value, Phi):
            others = [item for item in inputs_of(value) if self.source(resolved(item)) is not value]
            return _only([self.of_value(item, seen) for item in others])
        if isinstance(value, Unknown) and (given := self._given(value)) is not None:
            return self.of_value(given, seen)
        if not isinstance(value, Tensor):
            return None
        if value.op in self._operators or (value.op == operators.EXP and self._is_of_logarithm(value, seen)):
            return value.site
        if isinstance(value, ModuleOutput):
            return self._of_module(resolved(value.parents[0]), value, seen)
        if isinstance(value, Component):
            return self._of_output(value, seen)
        joined = resolved(value.parents[0]) if value.op in _JOINING and value.parents else None
        if not isinstance(joined, Container) or joined.is_open or joined.has_use(FILLED):
            return None
        return _only([self.of_value(item, seen) for item in joined.elements()])

    def _is_of_logarithm(self, exponential: Tensor, seen: frozenset[Value]) -> bool:
        """Whether an exponential undoes the logarithm of one of the operators: `log_softmax(x).exp()`."""
        of = frozenset(_LOGARITHMS[name] for name in self._operators if name in _LOGARITHMS)
        search = _Search(self._program, of, self._through, self._call)
        return bool(of) and bool(exponential.parents) and search.of_value(exponential.parents[0], seen) is not None

    def in_call(self, value: Value) -> Value:
        """A value, or the value that the call passes for it."""
        given = self._given(value) if isinstance(value, Unknown) else None
        return resolved(given) if given is not None else value

    def _given(self, parameter: Unknown) -> Value | None:
        """The value the call passes for a parameter of the `forward`."""
        module = resolved(self._call.parents[0]) if isinstance(self._call, ModuleOutput) else None
        forward = _plain_forward(module.info) if isinstance(module, Module) and module.info is not None else None
        if forward is None or self._call is None or parameter.label not in forward.parameters[1:]:
            return None
        if parameter.site is None or parameter.site.written != site_of(forward.node).written:
            return None
        known = self._program.observations.calls.get(self._call)
        index = forward.parameters.index(parameter.label) - 1
        return known[1].get(index, parameter.label) if known is not None else None

    def source(self, value: Value) -> Value:
        """The value before changes of shape or type."""
        seen: set[Value] = set()
        while isinstance(value, Tensor) and value not in seen and value.op in self._through and value.parents:
            seen.add(value)
            if value.op == operators.ADD and not all(isinstance(item, Plain) for item in value.parents[1:]):
                break
            value = resolved(value.parents[0])
        return value

    def _of_module(self, module: Value, call: ModuleOutput | None, seen: frozenset[Value]) -> Site | None:
        """The site at which a module's result is produced; `call` is the result, if this module is called."""
        if not isinstance(module, Module) or not is_as_made(module):
            return None
        if module.info is not None:
            returned = call.body if call is not None else self._program.returned_by(module.info)
            return self.of_value(returned, seen) if returned is not None else None
        name = module.name.removeprefix("torch.nn.")
        if _OF_MODULES.get(name) in self._operators:
            return module.site if call is None else call.site
        if name == "Sequential" and module.parents:
            return self._of_module(resolved(module.parents[-1]), None, seen)
        return None

    def _of_output(self, output: Component, seen: frozenset[Value]) -> Site | None:
        """The site at which one of several outputs of a module is produced."""
        whole = output.parents[0]
        key, body = whole.key_of(output), whole.body if isinstance(whole, ModuleOutput) else None
        if isinstance(whole, Tensor) and not is_as_made(resolved(whole.parents[0])):
            return None
        parts = [_element_of(item, key) for item in inputs_of(body)] if body is not None else []
        known = [item for item in parts if item is not None]
        return _only([self.of_value(item, seen) for item in known]) if len(known) == len(parts) else None


def _only(sites: list[Site | None]) -> Site | None:
    """The first of several sites; None if there are none, or one is missing."""
    return sites[0] if sites and None not in sites else None


def _element_of(value: Value, key: object) -> Value | None:
    """The element of a tuple or list without named entries, or that of a dictionary; None if not known."""
    if isinstance(value, Dict):
        is_known = not (value.parents or value.is_open or value.unsure or value.has_use(FILLED))
        return value.entries.get(key) if is_known and isinstance(key, str) else None
    return value.element_at(key) if isinstance(value, Container) and not value.entries else None
