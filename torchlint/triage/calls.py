"""Calls: of operators, of modules, and of functions of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.operators import INPLACE
from torchlint.triage.expressions import Expressions
from torchlint.triage.known import (
    BUILTINS,
    COLLECTING,
    CONTAINERS,
    OPERATORS_OF_TORCH,
    PACKAGES,
    PLAIN,
    SAVING_INPUT,
    SAVING_RESULT,
    SHARING,
    WITHOUT_GRADIENTS,
    WITHOUT_GRAPH,
)
from torchlint.triage.names import dotted, is_false, last
from torchlint.triage.values import MADE, Maybe, Value, present, tracked_most


class Calls(Expressions):
    """Reads calls."""

    def _call(self, node: ast.Call) -> Maybe:
        receiver = None
        if isinstance(node.func, ast.Attribute):
            package = dotted(node.func.value)
            if package.rpartition(".")[2] in WITHOUT_GRADIENTS:
                return None
            if package not in PACKAGES:
                receiver = self._value(node.func.value)
        elif not isinstance(node.func, ast.Name):
            receiver = self._value(node.func)
        keywords = {item.arg: self._value(item.value) for item in node.keywords if item.arg}
        given = [receiver, *(self._value(item) for item in node.args), *keywords.values()]
        inputs = list(present(given))
        if out := keywords.get("out"):
            self._change(out, inputs)
        name, flags = last(node.func), {item.arg for item in node.keywords if not is_false(item.value)}
        if name in ("Parameter", "requires_grad_", "parameters", "named_parameters") or "requires_grad" in flags:
            return self._leaf(inputs if name == "requires_grad_" else [])
        if name in OPERATORS_OF_TORCH and not self._is_own(node.func, name):
            return self._operator(name, node, inputs, "inplace" in flags)
        if name in (BUILTINS if isinstance(node.func, ast.Name) else PLAIN):
            return None
        if name in CONTAINERS:
            return Value(*inputs, container=True)
        if name in WITHOUT_GRAPH:
            return Value()
        if name in COLLECTING and receiver:
            receiver.bases += tuple(inputs[1:])
            return None
        return self._called(self._made_as(node.func, name), inputs, receiver)

    def _is_own(self, func: ast.expr, name: str) -> bool:
        """Whether what has an operator's name is something else: a builtin, a module or method of the object."""
        if isinstance(func, ast.Name):
            return name in BUILTINS or name in self._names
        return isinstance(func, ast.Attribute) and dotted(func.value) == "self"

    def _made_as(self, func: ast.expr, name: str) -> str:
        """The name by which what is called came into the function: `layers` for a `layer` of `self.layers`."""
        called = self._names.get(name) if isinstance(func, ast.Name) else None
        if isinstance(func, ast.Subscript):
            called = self._value(func.value)
        labels = [value.label for value in called.storage() if value.label] if called else []
        return labels[0].rpartition(".")[2] if labels else name

    def _leaf(self, bases: Iterable[Value]) -> Value:
        leaf = Value(*bases, tracked=MADE)
        leaf.leaf = True
        return leaf

    def _operator(self, name: str, node: ast.Call, inputs: list[Value], in_place: bool) -> Maybe:
        if not inputs:
            return None
        tracked, plain = tracked_most(inputs), name.removesuffix("_")
        if name in SHARING:
            return self._view(name, inputs[0])
        if name in WITHOUT_GRAPH:
            return Value()
        saved = inputs
        if name in INPLACE or in_place:
            result, saved = self._changed(inputs[0], inputs[1:]), inputs[1:]
            inputs[0].overwritten |= in_place
            self._step(*node.args)
        else:
            result = Value(tracked=tracked)
        if tracked and plain in SAVING_INPUT:
            for value in saved:
                value.save()
        if tracked and plain in SAVING_RESULT:
            result.save()
        return result

    def _changed(self, target: Value, by: Iterable[Maybe] = ()) -> Value:
        """What a change in place makes of a value: the same under another name."""
        self._change(target, by)
        return Value(target)

    def _called(self, name: str, inputs: list[Value], receiver: Maybe) -> Maybe:
        if tracked_most(inputs):
            self.handing.add(name)
        effect = self.surroundings.effect(name)
        tracked = MADE if effect.tracks or self.surroundings.goes_backward else tracked_most(inputs)
        for attribute in effect.attributes:
            if held := self._names.get(attribute):
                self._change(held)
        handed = [value for value in inputs if value is not receiver]
        if effect.changes and handed:
            for value in handed[1:]:
                self._change(value)
            result = self._changed(handed[0])
            result.tracked = tracked
        else:
            result = Value(tracked=tracked)
        if tracked and effect.saves:
            for value in inputs:
                value.save()
        if tracked and effect.keeps_result:
            result.save()
        return result
