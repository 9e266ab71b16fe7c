"""Calls of modules: their output, and the arguments they overwrite."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, first_argument, takes
from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Compute
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.forwards import Forward, Forwards
from torchlint.model.interpret.transfer.grad_modes import decorated_mode
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.kinds import note_index, note_tensor
from torchlint.model.values import CallResult, Container, Module, ModuleOutput, Tensor, Value, is_none, resolved
from torchlint.pytorch import indexing
from torchlint.syntax.python_ast import site_of


class Modules(Part):
    """Calls modules."""

    def __init__(self, machine: Machine, tensors: Tensors, elements: Elements, forwards: Forwards) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.elements = elements
        self.forwards = forwards

    def call(self, callee: Module, arguments: Arguments, node: ast.Call, *, is_direct: bool = False) -> Value:
        """The output of a module, or of its `forward` if that is called directly.

        Arguments that it overwrites are changed in place.
        """
        called = callee.info.method("__call__") if callee.info is not None and not is_direct else None
        if called is not None:
            return self.machine.call(self.state.bound(called, callee), arguments, node)
        if callee.inplace and arguments.positional:
            return self._activate_in_place(callee, arguments.positional[0], node)
        opening = self._opening(callee)
        if opening is not None and opening.inplace and arguments.positional and not arguments.starred:
            overwritten = self._activate_in_place(opening, arguments.positional[0], node)
            self.observations.openings[overwritten] = opening
            arguments = Arguments([overwritten, *arguments.positional[1:]], arguments.keywords, [])
        elif callee.info is not None and (forward := self._forward(callee, arguments)) is not None:
            self._overwrite(forward, callee.info, arguments, node)
            self._note_call(callee.info, arguments)
        return self.result(callee, arguments, node)

    def _forward(self, callee: Module, arguments: Arguments) -> Forward | None:
        """The summary of a module's `forward` for a call with these arguments."""
        method = callee.info.method("forward") if callee.info is not None else None
        if callee.info is None or method is None:
            return None
        return self.forwards.forward_of(callee.info, arguments.flags(method), self.forwards.options_of(callee))

    def _opening(self, callee: Module) -> Module | None:
        """The first module of a `Sequential`, unless an option selects it."""
        if callee.info is not None or not callee.name.endswith(".Sequential"):
            return None
        is_open = any(isinstance(item, Container) and item.unsure for item in callee.parents)
        if is_open or not callee.parents:
            return None
        first = resolved(self.elements.lookup(callee, 0, ast.Constant(0)))
        return first if isinstance(first, Module) else None

    def _overwrite(self, forward: Forward, info: ClassInfo, arguments: Arguments, node: ast.Call) -> None:
        """Record the arguments that this module's `forward` activates in place."""
        method = info.method("forward")
        assert method is not None
        for index, name in enumerate(method.parameters[1:]):
            argument = arguments.get(index, name)
            if name in forward.overwritten and argument is not None and index < len(node.args):
                self._change_argument(argument, forward.overwritten[name], node.args[index], node)

    def _note_call(self, info: ClassInfo, arguments: Arguments) -> None:
        """Remember the parameters that a call of `forward` passes, and its grad mode."""
        method = info.method("forward")
        assert method is not None
        given = {name for name, value in _by_name(info, arguments).items() if not is_none(value)}
        self.observations.forward_calls.setdefault(method, []).append((frozenset(given), self.state.mode))

    def _change_argument(self, argument: Value, how: str, written: ast.expr, node: ast.Call) -> Tensor:
        """Record that a call overwrites an argument, given as written."""
        self.observations.mutated.add(argument)
        result = self.tensors.mutate(node, argument, how, ())
        self.observations.in_place_results[result] = written
        return result

    def result(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """A new output of a module, or of a callee that is called like one."""
        info = callee.info if isinstance(callee, Module) else None
        mode = self.state.mode
        forward = info.method("forward") if info is not None else None
        if forward is not None and not takes(self.state.bound(forward, callee), arguments):
            return self.state.stamp(CallResult(node, arguments.all(), "", callee, mode))
        if info is not None:
            methods = [method for name in ("__call__", "forward") if (method := info.method(name)) is not None]
            mode = next(filter(None, (decorated_mode(method, self.state) for method in methods)), mode)
        given = arguments.all() if info is not None else arguments.all_from("input")
        if isinstance(callee, Module) and info is None and callee.name.startswith("torch.nn.") and given:
            note_tensor(given[0])
            if callee.name.rpartition(".")[2] in indexing.MODULES:
                note_index(given[0])
        result = self.state.stamp(ModuleOutput(node, (callee, *given), mode))
        if isinstance(callee, Module) and info is not None and (known := self._forward(callee, arguments)) is not None:
            result.body = known.returned
            result.given = _by_name(info, arguments)
        self.observations.calls[result] = "module", arguments, None
        self.state.emit(Compute(site_of(node), result))
        return result

    def _activate_in_place(self, callee: Module, argument: Value, node: ast.Call) -> Tensor:
        result = self._change_argument(argument, callee.name.rpartition(".")[2], first_argument(node), node)
        self.observations.in_place_modules[result] = callee
        return result


def _by_name(info: ClassInfo, arguments: Arguments) -> dict[str, Value]:
    """The values a call passes for the parameters of a module's `forward`."""
    method = info.method("forward")
    assert method is not None
    return {**dict(zip(method.parameters[1:], arguments.positional, strict=False)), **arguments.keywords}
