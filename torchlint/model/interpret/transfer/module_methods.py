"""Methods of modules, parameters and tensors: modes, freezing, devices, and graph cuts."""

from __future__ import annotations

import ast

from torchlint.model.arguments import (
    Arguments,
    MethodHandler,
    called_attribute,
    is_false,
    is_true,
)
from torchlint.model.events import (
    ModeSwitch,
)
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.carried import as_carried
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.values import (
    Function,
    Generator,
    Gradient,
    Leaf,
    Module,
    ModuleParameter,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    inputs_of,
    meanings,
    resolved,
)
from torchlint.pytorch import api, operators, table
from torchlint.pytorch.effects import (
    EvaluatesModule,
    TrainsModule,
)
from torchlint.syntax.python_ast import dotted, site_of, walk

_TRAIN = table.method("Module.train")


class ModuleMethods(Part):
    """Calls methods of modules, some of which tensors also have."""

    def __init__(self, machine: Machine, tensors: Tensors, elements: Elements) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.elements = elements

    def handlers(self) -> dict[str, MethodHandler]:
        """Methods by name."""
        return {
            "detach_": self._detach_in_place, "apply": self._apply,
            "parameters": self._parameters, "named_parameters": self._named_parameters,
            **dict.fromkeys(api.SELF_METHODS, self._itself), "requires_grad_": self._requires_grad,
            "freeze": self._freeze,
            **dict.fromkeys(table.methods_with(EvaluatesModule, TrainsModule), self.switch_mode),
        }  # fmt: skip

    def _parameters(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        known = receiver.part("parameters()")
        if known is None:
            known = self.state.stamp(Parameters(node, (receiver,)))
            known.loops, known.order = receiver.loops, receiver.order
            receiver.set_part("parameters()", known)
        return known

    def _named_parameters(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        parameter = self.elements.lookup(self._parameters_of(receiver, node), None, node)
        pair = self.state.stamp(Tuple(node, (Plain(node), parameter)))
        return self.state.stamp(Generator(node, (pair,)))

    def _parameters_of(self, receiver: Value, node: ast.Call) -> Value:
        found = self._parameters(receiver, Arguments([], {}, []), node)
        assert found is not None
        return found

    def _itself(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`model.cuda()` is the model; an unknown receiver may be a tensor or a module, with the same effect."""
        if isinstance(receiver, Phi) and all(isinstance(item, (Tensor, Plain)) for item in meanings(receiver)):
            return None
        if isinstance(receiver, (Module, Unknown, Optimizer, Parameters, Phi)):
            if isinstance(receiver, Gradient):
                return None
            return receiver
        if isinstance(receiver, Tensor):
            if receiver.leaf:
                return self.tensors.make(operators.TO, (receiver,), node)
            return None
        return None

    def switch_mode(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`model.train()`, `model.train(flag)` and `model.eval()` on a module, or on a possible module."""
        result = self._itself(receiver, arguments, node)
        if result is not None and len(arguments.all()) <= 1:
            evaluates = called_attribute(node) == "eval"
            mode = arguments.bind(_TRAIN.parameters, receiver).get("mode")
            training = not evaluates if not arguments.all() else _constant(mode)
            self.state.emit(ModeSwitch(site_of(node), receiver, training))
        return result

    def _freeze(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`model.freeze()` of Lightning, and similar methods of the program."""
        if not arguments.all():
            self.observations.frozen.add(receiver)
        return None

    def _requires_grad(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        flag = arguments.get(0, "requires_grad")
        if flag is not None and not is_true(flag):
            self.observations.frozen.add(receiver)
        if is_false(flag):
            return receiver
        if isinstance(receiver, (Module, Parameters)):
            self.observations.unfrozen.append(self.state.stamp(Leaf(node, (receiver,), self.state.mode)))
            return receiver
        leaf = self.tensors.new_leaf(node, (receiver,), receiver)
        self.observations.unfrozen.append(leaf)
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and not isinstance(receiver, Module)
        ):
            if not receiver.has_use(*api.MODULE_EVIDENCE):
                self.machine.write(node.func.value, leaf)
                return leaf
        return leaf

    def _apply(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`model.apply(freeze)` with a function that sets `requires_grad` of parameters."""
        given = resolved(arguments.positional[0]) if arguments.positional else None
        info = given.info if isinstance(given, Function) else None
        if info is not None and any(getattr(item, "attr", "").startswith("requires_grad") for item in walk(info.node)):
            self.observations.frozen.add(receiver)
        return None

    def _detach_in_place(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        assert isinstance(node.func, ast.Attribute)
        if isinstance(receiver, ModuleParameter):
            self.observations.frozen.add(receiver)
        cut = self.tensors.make(operators.DETACH, (receiver,), node, receiver)
        if isinstance(node.func.value, (ast.Name, ast.Attribute)) and not isinstance(receiver, Module):
            for value in self._all_cut(node.func.value, receiver, node):
                self.state.replace(value, cut)
            self.machine.write(node.func.value, cut)
        return cut

    def _all_cut(self, written: ast.expr, receiver: Value, node: ast.Call) -> list[Value]:
        """The values `x.detach_()` cuts; `for x in states: x.detach_()` cuts each state, and so all of `states`."""
        over = self.definitions.tree.iterated(written)
        if over is None:
            return [as_carried(self.machine, receiver, node)]
        return [*inputs_of(receiver), *([self.machine.value(over)] if dotted(over) else [])]


def _constant(value: Value | None) -> bool | None:
    """The constant value of a condition; None if a variable decides."""
    value = resolved(value) if value is not None else None
    return bool(value.constant) if isinstance(value, Plain) and value.is_literal else None
