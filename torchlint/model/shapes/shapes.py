"""Queries about shapes and element types: the types of a value, and operations that must raise."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

from torchlint.model.events import Branch, Compute, Fresh
from torchlint.model.program import Program, Trace
from torchlint.model.shapes import layers, operations
from torchlint.model.shapes.batches import loader_of
from torchlint.model.shapes.case import Case, Stop
from torchlint.model.shapes.handled import is_handled, measures
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.order import Displaced, Order
from torchlint.model.shapes.scope import ROOT, Scope
from torchlint.model.shapes.tensor_type import ANY, Choice, Evaluated, Misfit, TensorType
from torchlint.model.shapes.unsure import changes_in_place, is_unsure
from torchlint.model.utilities import DataLoader
from torchlint.model.values import Module, ModuleOutput, Parameter, Tensor, Value, resolved
from torchlint.pytorch import shapes as table
from torchlint.syntax.python_ast import Site, dotted, walk

MAX_CASES = 24
"""Maximum number of cases per value; with more, nothing is known."""
_Question = Callable[[Case], Evaluated]
_Answer = TypeVar("_Answer")


class Shapes:
    """Answers about the values of a program, computed on request."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._cases: dict[frozenset[tuple[Hashable, Hashable]], Case] = {}
        self._scopes: dict[Hashable, Scope] = {}

    def types_of(self, value: Value, calls: Sequence[ModuleOutput] = ()) -> list[TensorType]:
        """The possible types of a value, inside these calls of modules; empty if it surely cannot be computed."""
        if self.is_unsure:
            return [ANY]
        return [item for item in self._results(value, calls) if isinstance(item, TensorType)]

    def types_before(self, layer: Module, module: Module) -> list[TensorType]:
        """The possible types of the operand of a layer in a `Sequential`, for any input of the whole."""
        if self.is_unsure or not self._runs_in_order(module):
            return [ANY]
        return [item for item in self._in_cases(_Chain(module, layer)) if isinstance(item, TensorType)]

    @cached_property
    def misfits(self) -> list[Misfit]:
        """Operations that must raise if they run, each once, in the order of the file."""
        if self.is_unsure:
            return []
        found: dict[Site, Misfit] = {}
        for misfit in self._all_misfits():
            known = found.get(misfit.site)
            if known is None or (known.related and not misfit.related):
                found[misfit.site] = misfit
        own = {misfit.site for misfit in found.values() if not misfit.related}
        sure = [misfit for misfit in found.values() if not misfit.related or misfit.related[0][0] not in own]
        return sorted(
            (misfit for misfit in sure if not is_handled(self._program.tree, misfit.site)), key=lambda item: item.site
        )

    @cached_property
    def displaced(self) -> list[Displaced]:
        """Views that name dimensions in another order than their tensor has them, in every case."""
        if changes_in_place(self._program.tree):
            return []
        order, found = Order(self._program), dict[Site, Displaced]()
        for view in order.views():
            in_cases = self._in_cases(partial(order.displaced, view=view))
            answers = (item for item in in_cases if not isinstance(item, Misfit))
            first = next(answers, None)
            if isinstance(first, Displaced) and all(isinstance(item, Displaced) for item in answers):
                found[first.site] = first
        return sorted(item for site, item in found.items() if site not in order.undone)

    @cached_property
    def batches_as_time(self) -> dict[Site, tuple[Module, DataLoader | None]]:
        """Calls of layers that treat the samples of a batch as the steps of a sequence, in any case."""
        if self.is_unsure:
            return {}
        for trace in self._program.traces:
            for value in self._computed(trace):
                self._results(value)
        return {site: found for case in self._cases.values() for site, found in case.batches_as_time.items()}

    def are_of_batch(self, *given: Value) -> bool:
        """Whether values surely have the samples of one batch in their first dimension."""
        sizes = {item.size(0) for value in given for item in self.types_of(value)}
        return len(sizes) == 1 and loader_of(*sizes) is not None

    # -- cases ----------------------------------------------------------------------------------------

    def _results(self, value: Value, calls: Sequence[ModuleOutput] = ()) -> list[Evaluated]:
        """The results for a value in each case."""
        return list(self._in_cases(lambda case: case.evaluate(value, case.within(calls))))

    def _in_cases(self, ask: Callable[[Case], _Answer | Choice]) -> Iterator[_Answer | TensorType]:
        """The answers in each case; unknown if there are too many cases."""
        pending: list[dict[Hashable, Hashable]] = [{}]
        for _ in range(MAX_CASES):
            if not pending:
                return
            choices = pending.pop()
            answer = ask(self._case(choices))
            if isinstance(answer, Choice):
                pending += [{**choices, answer.key: option} for option in answer.options]
            else:
                yield answer
        if pending:
            yield ANY

    def _case(self, choices: dict[Hashable, Hashable]) -> Case:
        key = frozenset(choices.items())
        known = self._cases.get(key)
        if known is None:
            known = self._cases[key] = Case(self._program, choices, self._scopes, operations)
        return known

    def _misfit(self, ask: _Question) -> Misfit | None:
        """The reason why no case has a result: the last thing that does not fit."""
        last: Misfit | None = None
        for answer in self._in_cases(ask):
            if not isinstance(answer, Misfit):
                return None
            last = answer if last is None or answer.order > last.order else last
        return last

    # -- what must raise ------------------------------------------------------------------------------------

    def _all_misfits(self) -> Iterator[Misfit]:
        for trace in self._program.traces:
            for value in self._computed(trace):
                misfit = self._misfit(partial(Case.evaluate, value=value))
                if misfit is not None:
                    yield misfit
            for event in trace.of(Fresh):
                module = event.value
                if isinstance(module, Module) and self._runs_in_order(module):
                    misfit = self._misfit(_Chain(module))
                    if misfit is not None:
                        yield misfit

    def _runs_in_order(self, module: Module) -> bool:
        """Whether a module is a `Sequential` called as a whole, not element by element."""
        return module.name == "torch.nn.Sequential" and module.info is None and module.label not in self._taken_apart

    @cached_property
    def _taken_apart(self) -> set[str]:
        """The names of values that the program iterates over, or calls by element."""
        tree = self._program.tree
        calls = [node.func.value for node in tree.of_type(ast.Call) if isinstance(node.func, ast.Subscript)]
        indexed = [node.value for node in tree.of_type(ast.Subscript) if not _is_literal_index(node.slice)]
        iterated = [node.iter for node in tree.of_type(ast.For, ast.AsyncFor, ast.comprehension)]
        unpacked = [node.value for node in tree.of_type(ast.Starred)]
        mentioned = (item for node in (*calls, *indexed, *iterated, *unpacked) for item in walk(node))
        return {dotted(item).rpartition(".")[2] for item in mentioned if isinstance(item, (ast.Name, ast.Attribute))}

    def _computed(self, trace: Trace) -> Iterator[Value]:
        """The tensors of a trace, in the order of their creation."""
        computed = [event.value for event in trace.of(Compute) if not self._measured(event)]
        values: set[Value] = {*computed, *trace.frame.locals.values(), *trace.frame.returns}
        tensors = {item for value in values if isinstance(item := resolved(value), Tensor)}
        yield from sorted(tensors, key=lambda item: item.order)

    def _measured(self, event: Compute) -> bool:
        """Whether a condition on shapes or types decides if an event happens."""
        branches = (branch for branch, _ in (*event.path, *event.passed))
        return any(isinstance(branch, Branch) and self._asks(branch.site) for branch in branches)

    def _asks(self, site: Site) -> bool:
        """Whether the condition at a site depends on shapes or types."""
        node = self._program.tree.node(site)
        return measures(getattr(node, "test", None) or getattr(node, "subject", None))

    @cached_property
    def is_unsure(self) -> bool:
        """Whether the file changes shapes, or layers, in ways that are not followed."""
        return is_unsure(self._program.definitions, self._program)


def _is_literal_index(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.UnaryOp))


class _Chain:
    """Checks whether the layers of a `Sequential` fit each other, for any input; of all, or of those `before` one."""

    def __init__(self, module: Module, before: Module | None = None) -> None:
        self._module = module
        self._before = before
        self._input = Parameter(module.site, (), "")
        self._call = ModuleOutput(module.site, (module, self._input))

    def __call__(self, case: Case) -> Evaluated:
        self._call.order = self._module.order
        transfer = table.LAYERS["Sequential"]
        call = Operation(case, self._call, ROOT, transfer, {"self": self._input}, (), True)
        try:
            return layers.chained(call, self._module, call.operand(), self._before)
        except Stop as stop:
            return stop.result
