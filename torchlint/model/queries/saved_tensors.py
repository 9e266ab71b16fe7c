"""Tensors that autograd saved, and that are changed in place before their backward."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import (
    Backward,
    Branch,
    Compute,
    Event,
    Loop,
    Mutate,
    Returned,
    apart,
)
from torchlint.model.kinds import is_number
from torchlint.model.lineage import storages
from torchlint.model.module_values import called_like_module, has_parameters
from torchlint.model.program import Program, Trace
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    CallResult,
    Container,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Value,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch.api import GradMode
from torchlint.pytorch.autograd_table import MODULES, OPERATORS
from torchlint.pytorch.naming import CACHE, EXPLAINING, INFERENCE, SEARCHING, TRAINING
from torchlint.pytorch.releases import Releases
from torchlint.syntax.python_ast import FUNCTIONS, dotted, is_literal, walk

_FOLDING = frozenset("Linear MultiheadAttention LSTM GRU RNN".split())
"""Modules that fold their input's dimensions for a matrix product; a different memory order forces a copy."""
_REORDERING = frozenset("transpose permute swapaxes swapdims movedim moveaxis".split())
_RELU_KEEPS_RESULT = (1, 10)
"""The release since which the gradient of `relu` uses its result; up to 1.7 it uses its input."""
_MODES = LazyPattern(
    r"(?i)(analy[sz](e|is)|infer(ence)?|eval(uat(e|ion))?|test(ing)?|predict(ion)?|demo|visuali[sz]e|plot)"
)
"""Strings that name a mode in which nothing trains."""
_SEVERAL = "tensors"
"""The parameter of an operator that multiplies any number of tensors: `einsum`, `multi_dot`."""


class SavedTensorChanged(NamedTuple):
    """`mutate` changes a tensor that `saver` saved for backward; `silent` where PyTorch does not notice."""

    mutate: Mutate
    saver: Event
    operator: str
    result: bool
    silent: bool

    @property
    def certain(self) -> bool:
        """Whether no condition precedes the save or the change."""
        return not self.mutate.path and not self.saver.path


class _Save(NamedTuple):
    """A value that an operator or a module saves for backward."""

    number: int
    """In flow order."""
    saver: Event
    saved: Value
    is_result: bool


class SavedTensors:
    """Answers about changes of tensors that autograd saved."""

    def __init__(self, program: Program, tracking: Tracking, torch: Releases) -> None:
        self.program = program
        self.tracking = tracking
        self._torch = torch
        self._known_storages: dict[Value, frozenset[Value]] = {}
        self._known_origins: dict[Value, list[Value]] = {}

    def changed(self) -> Iterator[SavedTensorChanged]:
        """In-place changes between a save and the backward pass that needs it."""
        for trace in self.program.traces:
            mutations = trace.of(Mutate)
            if not mutations:
                continue
            saves = self._saves(trace)
            for mutate in mutations:
                found = self._saver(trace, mutate, saves)
                if found is not None:
                    yield found

    def _saves(self, trace: Trace) -> dict[Value, list[_Save]]:
        """The saved values of operators and modules, by the values that may own their storage."""
        found: dict[Value, list[_Save]] = {}
        kept = ((saver, *save) for saver in trace.of_kinds(Compute, Mutate) for save in self._saved(saver))
        for number, (saver, saved, is_result) in enumerate(kept):
            for origin in self._origins(saved):
                found.setdefault(origin, []).append(_Save(number, saver, saved, is_result))
        return found

    def _saver(self, trace: Trace, mutate: Mutate, saves: dict[Value, list[_Save]]) -> SavedTensorChanged | None:
        near = {save.number: save for item in self._origins(mutate.target) for save in saves.get(item, ())}
        if not near or self._is_inference(mutate) or self._is_given_without_gradients(trace, mutate):
            return None
        for _, saver, saved, is_result in (near[number] for number in sorted(near)):
            if saver is mutate or apart(saver, mutate):
                continue
            if self._meets(mutate, saver, saved) and self._needed(trace, saver, mutate):
                return SavedTensorChanged(mutate, saver, _operator(saver), is_result, _is_silent(mutate.target))
        return None

    def _meets(self, mutate: Mutate, saver: Event, saved: Value) -> bool:
        """Whether a change modifies a tensor of the program after it was saved."""
        both = self._storages(mutate.target) & self._storages(saved)
        if not both:
            return False

        def left(phi: Phi) -> bool:
            """Whether a value belongs to a finished loop iteration, and the other may belong to another one."""
            return (
                phi not in both and bool(phi.arms) and not (set(saver.loops) & set(mutate.loops)).issuperset(phi.loops)
            )

        reached = storages(mutate.target, saver.path, left=left)
        changed = {item for item in reached if not isinstance(item, Phi)}
        shared = changed & storages(saved, mutate.path, left=left)
        return any(map(_is_made, shared)) and self._before(saver, saved, mutate, changed, shared)

    def _storages(self, value: Value) -> frozenset[Value]:
        """The storages of a value on any path; cached."""
        known = self._known_storages.get(value)
        if known is None:
            base = value.base if isinstance(value, Tensor) else None
            shared = self._known_storages.get(base) if base is not None else None
            known = frozenset(storages(value)) if shared is None else shared | {value}
            self._known_storages[value] = known
        return known

    def _origins(self, value: Value) -> list[Value]:
        """The storages of a value that are not parts of others: two values share memory if they share these."""
        found = self._known_origins.get(value)
        if found is None:
            whole = self._storages(value)
            found = [item for item in _owners(whole) if not isinstance(item, Phi)] or [*whole]
            self._known_origins[value] = found
        return found

    def _is_inference(self, event: Event) -> bool:
        """Whether a condition on an event, or the name of a surrounding function or caller, means inference."""
        tree = self.program.tree
        ways = [(branch, arm == 0) for branch, arm in event.path]
        ways += [(branch, arm != 0) for branch, arm in event.passed]
        for branch, holds in ways:
            node = tree.node(branch.site) if isinstance(branch, Branch) else None
            if isinstance(node, (ast.If, ast.IfExp)) and _speaks_of_inference(node.test, holds):
                return True
        around = (item for site in (event.site, *event.calls) for item in tree.ancestors(tree.node(site)))
        return any(isinstance(item, FUNCTIONS) and INFERENCE.search(item.name) for item in around)

    def _is_given_without_gradients(self, trace: Trace, event: Event) -> bool:
        """Whether a `forward` gets here only with a parameter that callers pass with gradients off."""
        calls = self.program.observations.forward_calls.get(trace.root, []) if trace.root is not None else []
        for branch, arm in event.path if calls else ():
            node = self.program.tree.node(branch.site) if isinstance(branch, Branch) else None
            name = _asked_for(node.test) if isinstance(node, ast.If) and arm == 0 else ""
            modes = {mode for given, mode in calls if name in given}
            if modes == {GradMode.OFF}:
                return True
        return False

    def _before(self, saver: Event, saved: Value, mutate: Mutate, changed: set[Value], shared: set[Value]) -> bool:
        """Whether the save precedes the change: in one pass, or in the previous iteration."""
        if saver.order < mutate.order:
            # a value of this iteration is not the one saved in the previous iteration
            now, then = (storages(value, carried=False) for value in (mutate.target, saved))
            return any(
                item not in now or (item in then and not saver.order < item.order < mutate.order)
                for item in _owners(shared)
            )
        loops = set(saver.loops) & set(mutate.loops)
        owners = _owners(changed)
        return bool(loops) and bool(owners) and all(loops.isdisjoint(item.loops) for item in owners)

    def _saved(self, saver: Event) -> Iterator[tuple[Value, bool]]:
        """The values that an operator or module saves for backward, and whether it is its result."""
        if isinstance(saver, Mutate):
            result, operator, inputs = saver.result, saver.how.rstrip("_"), (saver.target, *saver.by)
            if saver.how[:1].isupper():
                operator = saver.how.lower()
        else:
            assert isinstance(saver, Compute)
            result, operator, inputs = saver.value, saver.value.op, saver.value.parents
        if self.tracking.tracked(result) is not Answer.YES or self._is_of_old_relu(operator, result):
            return
        if isinstance(result, ModuleOutput):
            yield from self._saved_by_module(inputs[0], inputs[1:], result)
            return
        known = OPERATORS.get(_form(operator, inputs))
        if known is None:
            return
        if known.saves.get(_SEVERAL):
            yield from self._saved_of_several(inputs[known.parameters.index(_SEVERAL) :])
            return
        values = dict(zip(known.parameters, inputs, strict=False))
        for name, kept in known.saves.items():
            if name not in values or self.tracking.tracked(values[name]) is not Answer.YES:
                continue
            for item in kept:
                if item == "result":
                    yield result, True
                elif item in values and not (isinstance(saver, Mutate) and item == "self"):
                    yield values[item], False

    def _is_of_old_relu(self, operator: str, result: Value) -> bool:
        """Whether a `relu` belongs to a release that saves its input, which no tensor of the program shares."""
        if self._torch.highest >= _RELU_KEEPS_RESULT:
            return False
        module = resolved(result.parents[0]) if isinstance(result, ModuleOutput) else None
        return operator == "relu" or (isinstance(module, Module) and _last_layer(module) == "ReLU")

    def _saved_of_several(self, given: Iterable[Value]) -> Iterator[tuple[Value, bool]]:
        """The multiplied operands, separate or in a list, that another operand's gradient needs."""
        lists = (item.elements() if isinstance(item, Container) else [item] for item in map(resolved, given))
        operands = [item for several in lists for item in several]
        tracked = [self.tracking.tracked(item) is Answer.YES for item in operands]
        for number, item in enumerate(operands):
            if any(tracked[:number] + tracked[number + 1 :]):
                yield item, False

    def _saved_by_module(self, module: Value, inputs: tuple[Value, ...], result: Value) -> Iterator[tuple[Value, bool]]:
        module = resolved(module)
        if not isinstance(module, Module) or not inputs:
            return
        if "result" in MODULES.get(_last_layer(module), ()):
            yield result, True
        name = module.name.rpartition(".")[2]
        if name in _FOLDING and _is_reordered(inputs[0]):
            return
        for item in MODULES.get(name, ()):
            if item != "result" and (has_parameters(module) or self.tracking.tracked(inputs[0]) is Answer.YES):
                yield inputs[0], False

    def _needed(self, trace: Trace, saver: Event, mutate: Mutate) -> bool:
        """Whether a backward pass after the change runs through the operator that saved."""
        result = saver.value if isinstance(saver, Compute) else saver.result if isinstance(saver, Mutate) else None
        assert result is not None
        loops = set(saver.loops) & set(mutate.loops) if saver.order > mutate.order else set()
        needed = False
        for event in trace.of_kinds(Backward, Returned):
            if isinstance(event, Backward) and self._reaches(event.loss, result, loops):
                again = set(event.loops) & set(mutate.loops)
                if _is_between(event, saver, mutate) and not apart(event, mutate):
                    if event.keeps_graph is False:
                        return False
                    again -= set(saver.loops)  # in the next iteration it uses new saved tensors
                needed = needed or event.order > mutate.order or bool(again)
            elif isinstance(event, Returned) and self._may_go_backward_elsewhere(trace):
                needed = needed or self._reaches(event.value, result, loops)
        return needed

    def _reaches(self, outputs: Value, result: Value, loops: set[Loop]) -> bool:
        """Whether a pass from a value runs through a result.

        With `loops`, also one of an earlier iteration, which these carry on or put in a list.
        """
        graph = self.tracking.pass_through(outputs)
        if result not in graph or not loops:
            return result in graph
        ends = (end for item in graph if isinstance(item, Phi) and item.loop in loops for end in item.parents[1:])
        kept = (item for whole in graph if isinstance(whole, Container) and whole.grown for item in whole.elements())
        return any(result in self.tracking.pass_through(item) for item in (*ends, *kept))

    def _may_go_backward_elsewhere(self, trace: Trace) -> bool:
        """Whether callers of a function may go backward; tests are callers too, and would do so here."""
        if trace.root is None or _no_grad_root(trace):
            return False
        if SEARCHING.search(trace.root.name) or EXPLAINING.search(trace.root.name):
            return False
        return bool(self.program.observations.backwards) or not self.program.is_test


def _is_between(backward: Backward, saver: Event, mutate: Mutate) -> bool:
    """Whether a backward pass comes after a save and before the change, which may be in the next iteration."""
    if saver.order < mutate.order:
        return saver.order < backward.order < mutate.order
    around = set(saver.loops) & set(mutate.loops) & set(backward.loops)
    return bool(around) and saver.order < backward.order


def _owners(values: Iterable[Value]) -> list[Value]:
    """The values that own their storage."""
    return [item for item in values if not (isinstance(item, Tensor) and item.base is not None)]


def _is_made(value: Value) -> bool:
    """Whether the program computes a tensor, rather than a number, so that it is no buffer or cache of its callers."""
    if isinstance(value, CallResult) and value.callee is not None:
        return called_like_module(value.callee)
    return isinstance(value, Tensor) and is_number(value) is Answer.NO


def _form(operator: str, inputs: tuple[Value, ...]) -> str:
    """The table key for an operator's signature: `max(x)`, `max(x, dim)` and `max(x, y)` save differently."""
    if len(inputs) > 1:
        form = f"{operator}.dim" if isinstance(inputs[1], Plain) else f"{operator}.other"
        if form in OPERATORS:
            return form
    return operator


def _is_reordered(value: Value) -> bool:
    """Whether a tensor is a view with permuted dimensions."""
    value = resolved(value)
    return isinstance(value, Tensor) and value.op in _REORDERING


def _operator(saver: Event) -> str:
    if isinstance(saver, Mutate):
        return saver.how
    assert isinstance(saver, Compute)
    if not isinstance(saver.value, ModuleOutput):
        return saver.value.op
    module = resolved(saver.value.parents[0])
    return _last_layer(module) if isinstance(module, Module) else module.label


def _last_layer(module: Module) -> str:
    """The class of a module, or of the last layer of a `Sequential`."""
    while module.name.endswith(".Sequential") and module.info is None and module.parents:
        if module.has_use("pop", "__setitem__", "[:]"):
            break
        last = resolved(module.parents[-1])
        if not isinstance(last, Module):
            break
        module = last
    return module.name.rpartition(".")[2]


def _asked_for(test: ast.expr) -> str:
    """`p` of `p is not None`, and of `p`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and is_literal(test.comparators[0], None):
        test = test.left
    return test.id if isinstance(test, ast.Name) else ""


def _speaks_of_inference(test: ast.expr, holds: bool) -> bool:
    """Whether nothing trains in one branch of a condition.

    Examples are `not self.training`, and by name `inference_params is not None`, `infer` and `cache is not None`. A
    string may name the mode, too: `mode == "analysis"`.
    """
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not) and _speaks_of_inference(test.operand, not holds)
    if isinstance(test, ast.BoolOp):
        all_hold = holds is isinstance(test.op, ast.And)
        return all_hold and any(_speaks_of_inference(part, holds) for part in test.values)
    last = dotted(test).rpartition(".")[2]
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        named = [item.value for item in (test.left, *test.comparators) if isinstance(item, ast.Constant)]
        if any(isinstance(name, str) and _MODES.fullmatch(name) for name in named):
            return holds is isinstance(test.ops[0], ast.Eq)
    if TRAINING.fullmatch(last) or last == "requires_grad":
        return not holds
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
        holds = not holds
    names = {item.id for item in walk(test) if isinstance(item, ast.Name)} if holds else set()
    return any(INFERENCE.search(name) or CACHE.search(name) for name in names)


def _is_silent(target: Value) -> bool:
    """Whether the change bypasses the version counter: through `.data` or NumPy."""
    while isinstance(target, Tensor) and target.base is not None:
        if target.op in (operators.DATA, operators.NUMPY):
            return True
        target = resolved(target.base)
    return False


def _no_grad_root(trace: Trace) -> bool:
    return trace.root is not None and trace.root.has_decorator("torch.no_grad")
