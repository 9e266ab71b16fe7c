"""Calls of PyTorch's own functions: optimizers, layers, new tensors, and operators as functions."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, first_argument, is_true
from torchlint.model.definitions import defaults_of
from torchlint.model.events import Clear, Fresh, GradRead
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.known_calls import KnownCall, KnownCalls
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.kinds import note_size, note_tensor
from torchlint.model.lineage import attached
from torchlint.model.values import (
    Container,
    Module,
    NewTensor,
    Parameter,
    Plain,
    Tensor,
    Value,
    is_none,
    resolved,
)
from torchlint.pytorch import api, table
from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES, VIEWS
from torchlint.syntax.python_ast import site_of


class TorchFunctions(Part):
    """Evaluates calls by the facts known about PyTorch."""

    def __init__(self, machine: Machine, tensors: Tensors, known_calls: KnownCalls) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.known_calls = known_calls

    def call(self, name: str, last: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """A call into PyTorch, by its qualified and its last name; None if nothing is known about these."""
        if last.startswith("_foreach_") and (gradients := self._gradients_in(arguments)):
            self._change_gradients(gradients, last, node)
            return Plain(node)
        out = arguments.keywords.get("out")
        if out is not None and self.tensors.is_gradient(resolved(out)):
            self.state.emit(GradRead(site_of(node), True, resolved(attached(resolved(out)).parents[0])))
        given = arguments.positional[0] if arguments.positional else None
        if given is not None and last.endswith("_") and self.tensors.is_gradient(resolved(given)):
            how = "fill_" if name.startswith("torch.nn.init.") else last
            self.tensors.change_gradient(resolved(given), how, tuple(arguments.positional[1:]), node)
            return given
        if last in api.PLAIN_FUNCTIONS or last.startswith(("is_", "are_", "get_", "set_")):
            return Plain(node)
        entry = table.family(name)
        if entry is not None:
            return self.known_calls.call(KnownCall(entry, last, arguments, node))
        if name.startswith("torch.nn.") and last[:1].isupper() and name.count(".") <= 4:
            return self._new_module(last, arguments, node)
        if last in api.CREATORS and name.count(".") <= 2:
            out = arguments.keywords.get("out")
            if out is not None:
                return self.tensors.mutate(node, out, last, ())
            return self.tensors.create(last, arguments, node)
        operator = api.operator_name(name)
        if operator is not None:
            return self._functional(operator, arguments, node)
        return None

    def _gradients_in(self, arguments: Arguments) -> list[Value]:
        """The gradients in a list that a call receives."""
        first = resolved(arguments.positional[0]) if arguments.positional else None
        elements = map(resolved, first.elements() if isinstance(first, Container) else ())
        return [item for item in elements if self.tensors.is_gradient(item)]

    def _change_gradients(self, gradients: list[Value], name: str, node: ast.Call) -> None:
        """`torch._foreach_mul_(gradients, 0.9)` changes them, `torch._foreach_norm(gradients)` only reads them."""
        owners = {resolved(attached(item).parents[0]) for item in gradients}
        if name == "_foreach_zero_":
            self.state.emit(Clear(site_of(node), None, explicit=False))
        else:
            self.state.emit(GradRead(site_of(node), name.endswith("_"), owners.pop() if len(owners) == 1 else None))

    def _new_module(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if api.WRAPPERS.search(name) and arguments.positional:
            return arguments.positional[0]
        flag = arguments.bind(api.MODULES_IN_PLACE[name]).get("inplace") if name in INPLACE_MODULES else None
        inplace = is_true(flag) and not self._drops_nothing(name, arguments)
        made = self.state.stamp(Module(node, f"torch.nn.{name}", arguments.all(), inplace=inplace))
        self.observations.calls[made] = name, arguments, None
        for size in arguments.all() if api.SIZED_MODULES.search(name) else ():
            note_size(size)
        self.state.emit(Fresh(site_of(node), made))
        return made

    def _drops_nothing(self, name: str, arguments: Arguments) -> bool:
        """Whether dropout may drop nothing: its probability, or the default of it, is 0, or only callers know it.

        With another probability, an in-place change that breaks `backward` raises in the first step, so its author
        would know.
        """
        probability = arguments.get(0, "p") if "Dropout" in name else None
        if isinstance(probability, Parameter) and self.state.frame.info is not None:
            default = defaults_of(self.state.frame.info.node).get(probability.label)
            return default is None or (isinstance(default, ast.Constant) and default.value == 0)
        return isinstance(probability, Plain) and probability.constant == 0

    def _functional(self, operator: str, arguments: Arguments, node: ast.Call) -> Value:
        parents = arguments.operands(operator, node)
        out = arguments.keywords.get("out")
        if out is not None:
            return self.tensors.mutate(node, out, operator, parents)
        first = arguments.get(0, "input")
        if first is not None and operator not in api.TAKING_NUMBERS:
            note_tensor(first)
        if first is not None and (operator in INPLACE or is_true(arguments.keywords.get("inplace"))):
            self.observations.mutated.add(first)
            result = self.tensors.mutate(node, first, operator, parents[1:])
            if operator not in INPLACE and isinstance(result, Tensor):
                self.observations.in_place_results[result] = first_argument(node)
            return result
        is_to_be_written = is_none(first)  # `F.relu(None)` raises: its input is missing
        if all(isinstance(resolved(item), Plain) for item in parents) and not is_to_be_written:
            return self.state.stamp(NewTensor(node))
        base = first if operator in VIEWS else None
        made = self.tensors.compute(operator, parents, node, base)
        note_tensor(made)
        self.observations.calls[made] = operator, arguments, None
        return made
