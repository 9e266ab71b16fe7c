"""Uses of tensors: the tensors computed from each, and those that no gradient reaches."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from torchlint.index import FileIndex
from torchlint.model.events import Backward, Call, Compute, Grad, Keep, Mutate, Returned, Yield
from torchlint.model.program import Program, Trace
from torchlint.model.values import Container, ModuleOutput, Phi, Tensor, Value, inputs_of, resolved

_DETACHING = frozenset({"detach", "data", "numpy"})
_READING = frozenset({"item", "tolist", "float"})
"""Methods, and Python's own `float`, that read a number."""
_OF_MODULES = frozenset({"forward", "training_step"})
"""Methods that other code calls without their name."""
_STEPS = 8


class Uses:
    """The uses of a program's tensors."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def is_detached(self, value: Value, steps: int = _STEPS) -> bool:
        """Whether no gradient reaches a value: code detaches, reads or drops all that it computes from it."""
        users = self.of.get(value, []) if steps and value not in self._handed else []
        if not users:
            return steps > 0 and value not in self._handed and (value in self._read or self._sees_all)
        return all(item.op in _DETACHING or self.is_detached(item, steps - 1) for item in users)

    @cached_property
    def of(self) -> dict[Value, list[Tensor]]:
        """The tensors computed from each value by one operator or by one module."""
        found: dict[Value, list[Tensor]] = defaultdict(list)
        seen, stack = set[Value](), [*self._read, *self._handed, *self._program.observations.calls]
        for trace in self._program.traces:
            stack += [event.value for event in trace.of_kinds(Compute, Returned)]
            for change in trace.of(Mutate):
                stack += [change.target, *change.by]
        while stack:
            value = stack.pop()
            if value not in seen:
                seen.add(value)
                stack += value.elements() if isinstance(value, Container) else value.parents
                body = value.body if isinstance(value, ModuleOutput) else None
                stack += [body] if body is not None else []
                if isinstance(value, Tensor):
                    for item in dict.fromkeys(_parts(value.parents if body is None else (*value.parents, body))):
                        found[item].append(value)
        return found

    @cached_property
    def _read(self) -> set[Value]:
        """Tensors that code reads as a number."""
        numbers = self._program.observations.numbers.values()
        return {resolved(item) for how, operands, _ in numbers if how in _READING for item in operands}

    def _is_detached_by_callers(self, trace: Trace) -> bool:
        """Whether all calls of the root of a trace, by its name, are like `x.angles().detach()`."""
        root = trace.root
        if root is None or root.name in _OF_MODULES or root.name.startswith("__"):
            return False
        outside = list[ast.AST | None]()
        for tree, file in self._program.files.items():
            for call in FileIndex.of(tree).calls_named(root.name):
                around = file.function_around(call)
                if around is None or around.name != root.name:  # otherwise one object asks another of its kind
                    outside.append(tree.parent(call))
        ways = _DETACHING | _READING
        return bool(outside) and all(isinstance(item, ast.Attribute) and item.attr in ways for item in outside)

    @cached_property
    def _sees_all(self) -> bool:
        """Whether no generator yields values, whose uses are unknown."""
        return not any(trace.of(Yield) for trace in self._program.traces)

    @cached_property
    def _handed(self) -> set[Value]:
        """Values that leave a root, that an object keeps, or that start a backward pass: a gradient may reach them."""
        found = list[Value]()
        for trace in self._program.traces:
            if not self._is_detached_by_callers(trace):
                found += [event.value for event in trace.of(Returned) if not event.calls]
            found += [event.value for event in trace.of(Keep)]
            found += [event.loss for event in trace.of(Backward)]
            found += [event.outputs for event in trace.of(Grad)]
            found += [item for event in trace.of(Call) for item in event.value.parents]
            found += [item for event in trace.of(Mutate) for item in event.by]
            found += trace.heap.values()
        return set(_parts(found))


def _parts(values: Iterable[Value]) -> Iterator[Value]:
    """Values with their elements and alternatives."""
    seen, stack = set[Value](), [*values]
    while stack:
        value = resolved(stack.pop())
        if value not in seen:
            seen.add(value)
            yield value
            stack += value.elements() if isinstance(value, Container) else ()
            stack += inputs_of(value) if isinstance(value, Phi) else ()
