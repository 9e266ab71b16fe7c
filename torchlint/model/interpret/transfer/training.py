"""Method calls that train: backward, step, zero_grad, and the parts of scalers and accelerators in them."""

from __future__ import annotations

import ast

from torchlint.model.arguments import (
    Arguments,
    MethodHandler,
    called_attribute,
    flag,
    written,
)
from torchlint.model.definitions import FunctionInfo
from torchlint.model.events import (
    Backward,
    Clear,
    GradRead,
    Item,
    Loop,
    ScheduleStep,
    Step,
    Unscale,
    events_in,
)
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.carried import as_carried
from torchlint.model.interpret.transfer.frameworks import is_engine
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.module_values import BY_HAND
from torchlint.model.position import changed
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Container,
    External,
    Function,
    Instance,
    Module,
    Optimizer,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    meanings,
    owner_label,
    resolved,
)
from torchlint.pytorch import naming, table
from torchlint.pytorch.binding import Bound
from torchlint.pytorch.effects import (
    Clears,
    Effect,
    GoesBackward,
    GradMode,
    Steps,
    Unscales,
)
from torchlint.syntax.python_ast import dotted, site_of


class Training(Part):
    """Records the effects of methods on gradients and parameters."""

    def __init__(self, machine: Machine, tensors: Tensors) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self._clearing_steps: dict[FunctionInfo, bool] = {}

    def handlers(self) -> dict[str, MethodHandler]:
        """Methods that may train, by name."""
        effects: dict[type[Effect], MethodHandler] = {
            Clears: self._zero_grad, GoesBackward: self._backward, Steps: self._step,
        }  # fmt: skip
        return {
            **{name: handler for effect, handler in effects.items() for name in table.methods_with(effect)},
            **dict.fromkeys(table.methods_with(Unscales), self._unscale), "scale": self._scale,
        }  # fmt: skip

    def _zero_grad(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        self.state.emit(Clear(site_of(node), receiver))
        return Plain(node, None)

    def _backward(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`loss.backward()`, or `x.backward(loss)` on an accelerator, an engine or a module."""
        is_module = called_attribute(node) == "backward" and any(isinstance(x, Module) for x in inputs_of(receiver))
        if isinstance(receiver, External) or (is_module and len(arguments.all()) > 1):
            return None  # `model.backward(z, y)` inverts a flow and is no backward pass
        given = resolved(arguments.positional[0]) if arguments.positional else None
        is_by_hand = self._is_result_kept(node) or (given is not None and _is_of_backward(given))
        if is_by_hand and not isinstance(resolved(receiver), Tensor):
            for item in inputs_of(receiver):
                item.used_as(BY_HAND)
            return None  # gradients computed by hand, `delta = layer.backward(delta)`
        bound = arguments.bind(_LOSS_BACKWARD.parameters, receiver)
        of_engine = arguments.bind(_ENGINE_BACKWARD.parameters, receiver)
        if called_attribute(node) == "manual_backward":
            if of_engine.get("loss") is None:
                return None
            bound = of_engine
        elif of_engine.get("loss") is not None and self._is_engine(receiver):
            bound = of_engine
            for item in inputs_of(receiver):
                item.used_as("engine")
        by_framework = called_attribute(node) == "manual_backward" or (bound is of_engine and is_engine(receiver))
        loss = bound.get("loss") or as_carried(self.machine, receiver, node)
        self.emit_backward(loss, bound, node, receiver if by_framework else None)
        return Plain(node, None)

    def _is_result_kept(self, node: ast.Call) -> bool:
        """Whether a call's result gets a name: PyTorch's `backward` returns None."""
        parent = self.definitions.tree.parent(node)
        return isinstance(parent, ast.Assign) and dotted(parent.targets[0]) != "_"

    def _is_engine(self, receiver: Value) -> bool:
        """Whether `x.backward(loss)` is an accelerator's method, not a tensor's."""
        if isinstance(receiver, Phi):
            return any(map(self._is_engine, inputs_of(receiver)))
        if isinstance(receiver, (Instance, Module, Optimizer)):
            return True
        if isinstance(receiver, Unknown):
            used = receiver.has_use("prepare", "unwrap_model", "setup", "step", "zero_grad")
            return used or is_engine(receiver)
        return False

    def emit_backward(self, loss: Value, bound: Bound[Value], node: ast.AST, framework: Value | None = None) -> None:
        """Record a backward pass through `loss`, perhaps run by a framework."""
        retain, create = flag(bound, "retain_graph"), flag(bound, "create_graph")
        if isinstance(node, ast.Call) and any(item.arg == _OLD_RETAIN for item in node.keywords):
            retain = None
        gradient, inputs = (bound.get(name) is not None for name in ("gradient", "inputs"))
        is_told = gradient or (False if bound.complete else None)
        self.state.emit(Backward(site_of(node), loss, retain, create, framework, is_told, inputs))
        self.observations.backwards.append(loss)

    def _step(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        stepped = arguments.bind(_SCALER_STEP.parameters, receiver).get("optimizer")
        first = resolved(stepped) if stepped is not None else None
        if isinstance(first, Instance) and is_kind(receiver, Kind.SCALER):
            return self._step_of_wrapper(receiver, first, node)
        if first is not None and self._is_scaler(receiver, first):
            expression = written(node, _SCALER_STEP.parameters, "optimizer", method=True)
            self.emit_step(first, expression or node, node, receiver)
            return Plain(node, None)
        if all(is_kind(item, Kind.SCHEDULER) for item in inputs_of(receiver)):
            self.state.emit(ScheduleStep(site_of(node), receiver, arguments.all()))
            return Plain(node, None)
        closure = first if isinstance(first, Function) else arguments.keywords.get("closure")
        if not self.may_be_optimizer(receiver) or (
            first is not None and closure is None and not self._is_closure(receiver, first)
        ):
            return None
        assert isinstance(node.func, ast.Attribute)
        step = _step_of(node.func.value, receiver, node)
        clears = any(self._clears(item, node) for item in _options(arguments))
        if isinstance(closure, Function) and self.state.can_inline(closure.info):
            closure = Function(closure.info, closure.frame, closure.receiver, GradMode.ON)
            return self._step_with_closure(step, closure, node, clears)
        self.state.emit(step)
        if clears or self._clears_by_itself(receiver, node):
            self.state.emit(Clear(site_of(node), receiver, explicit=False))
        return Plain(node, None)

    def _step_of_wrapper(self, scaler: Value, wrapper: Instance, node: ast.Call) -> Value:
        """Call `step` of an object of this module, which a scaler runs and which steps the wrapped optimizer."""
        before = len(self.state.items)
        result = self.machine.call_method(wrapper, "step", Arguments([], {}, []), node)
        for event in events_in(self.state.items[before:]):
            if isinstance(event, Step):
                event.scaler = scaler
        return result

    def emit_step(self, optimizer: Value, expression: ast.expr, node: ast.Call, scaler: Value | None = None) -> None:
        """Record a step of an optimizer passed as an argument, as written."""
        self.state.emit(_step_of(expression, optimizer, node, scaler))

    def _clears_by_itself(self, receiver: Value, node: ast.Call) -> bool:
        """Whether a step clears, or may: an engine's step, one with hooks, or one of a class here that clears."""
        if receiver.has_use("register_step_pre_hook", "register_step_post_hook"):
            return True
        if isinstance(receiver, Phi):
            return any(self._clears_by_itself(item, node) for item in inputs_of(receiver))
        if isinstance(receiver, Unknown):
            return receiver.has_use("engine")
        return isinstance(receiver, Optimizer) and receiver.info is not None and self._step_clears(receiver, node)

    def _step_clears(self, optimizer: Optimizer, node: ast.Call) -> bool:
        """Whether the `step` of a class of this module clears; interprets it aside from the program."""
        assert optimizer.info is not None
        method = optimizer.info.method("step")
        if method is None or not self.state.can_inline(method):
            return False
        if method not in self._clearing_steps:
            self._clearing_steps[method] = self._clears(self.state.bound(method, optimizer), node)
        return self._clearing_steps[method]

    def _clears(self, function: Function, node: ast.Call) -> bool:
        """Whether a function without arguments clears gradients; interprets it aside from the program."""
        if not self.state.can_inline(function.info):
            return False
        items: list[Item] = []
        known = function.info in self.observations.interpreted
        with self.state.at(self.state.position, items):
            self.machine.inline(function, Arguments([], {}, []), node)
        if not known:
            self.observations.interpreted.discard(function.info)
        return any(isinstance(event, Clear) for event in events_in(items))

    def _step_with_closure(self, step: Step, closure: Function, node: ast.Call, clears: bool) -> Value:
        """The step with a closure: the closure runs inside it.

        LBFGS runs the closure many times and updates after each run. An optimizer from outside PyTorch may itself go
        backward through the closure's loss. `clears` says that it also runs a function that clears the gradients.
        """
        if not (isinstance(step.optimizer, Optimizer) and "LBFGS" in step.optimizer.name):
            if clears:
                self.state.emit(Clear(site_of(node), step.optimizer, explicit=False))
            loss = self.machine.inline(closure, Arguments([], {}, []), node)
            if not all(isinstance(item, Optimizer) and item.info is None for item in inputs_of(step.optimizer)):
                self.state.emit(GradRead(site_of(node)))
            self.state.emit(step)
            return loss
        loop, before = Loop(site_of(node), [], True, len(self.state.position.calls)), self.state.copy()
        with self.state.loop(loop):
            if clears:
                self.state.emit(Clear(site_of(node), step.optimizer, explicit=False))
            loss = self.machine.inline(closure, Arguments([], {}, []), node)
            self.state.emit(step)
        edge = changed(before, self.state.snapshot())
        loop.edge = edge._replace(names={**edge.names, closure.label: (None, loss)})  # the optimizer holds the loss
        self.state.add(loop)
        return loss

    def _is_closure(self, receiver: Value, first: Value) -> bool:
        """Whether the argument of a step is a closure, rather than gradients or a loss to differentiate."""
        if isinstance(receiver, Optimizer):
            named = naming.LOSS.search(first.label) or "grad" in first.label
            return not isinstance(first, (Tensor, Container)) and not named
        return isinstance(first, Unknown) and "closure" in first.label

    def _is_scaler(self, receiver: Value, first: Value) -> bool:
        """Whether `x.step(o)` is a gradient scaler's step of the optimizer `o`."""
        if isinstance(first, Optimizer):
            return True
        if isinstance(first, Phi):
            options = list(meanings(first))
            return bool(options) and all(self._is_scaler(receiver, item) for item in options)
        if not isinstance(first, Unknown) or isinstance(receiver, Optimizer):
            return False
        if is_kind(receiver, Kind.SCALER):
            return True
        return bool(naming.SCALER.search(receiver.label)) or first.has_use("zero_grad")

    def may_be_optimizer(self, receiver: Value) -> bool:
        """Whether a value may be an optimizer: by its class, by the methods called on it, or by its name."""
        if isinstance(receiver, Optimizer):
            return True
        if isinstance(receiver, Phi):
            return any(self.may_be_optimizer(item) for item in inputs_of(receiver))
        if isinstance(receiver, Unknown):
            if is_kind(receiver, Kind.SCHEDULER, Kind.SCALER):
                return False
            label = receiver.label if not receiver.label.startswith("[") else owner_label(receiver)
            return receiver.has_use("zero_grad", "engine") or naming.looks_like_optimizer(label)
        return False

    def _scale(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`scaler.scale(loss)`: the scaled loss."""
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, External, Container)):
            return None
        scaled = self.tensors.make("scale", (arguments.positional[0],), node)
        self.observations.scaled[scaled] = receiver
        return scaled

    def _unscale(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`scaler.unscale_(optimizer)`."""
        optimizer = arguments.bind(_UNSCALE.parameters, receiver).get("optimizer")
        if optimizer is None or isinstance(receiver, (Instance, Module, External)):
            return None
        self.state.emit(Unscale(site_of(node), resolved(optimizer), receiver))
        return Plain(node, None)


def _is_of_backward(value: Value) -> bool:
    """Whether a value is the result of an object's `backward`: PyTorch's returns nothing."""
    callee = value.callee if isinstance(value, Unknown) else None
    return callee is not None and callee.label.rpartition(".")[2] == "backward"


_OLD_RETAIN = "retain_variables"
"""The name of `retain_graph` before PyTorch 0.2."""
_LOSS_BACKWARD = table.method("Tensor.backward")
_ENGINE_BACKWARD = table.method("Accelerator.backward")
_SCALER_STEP = table.method("GradScaler.step")
_UNSCALE = table.method("GradScaler.unscale_")


def _options(arguments: Arguments) -> list[Function]:
    """The functions in dictionaries that a step receives: a line search calls `options["closure"]` by itself."""
    given = [item for item in map(resolved, arguments.all()) if isinstance(item, Container)]
    return [item for each in given for item in map(resolved, each.elements()) if isinstance(item, Function)]


def _step_of(expression: ast.expr, optimizer: Value, node: ast.Call, scaler: Value | None = None) -> Step:
    """The step of the optimizer `expression` that a call makes."""
    name = dotted(expression) or optimizer.label.strip("[]'") or "the optimizer"
    return Step(site_of(node), optimizer, name, expression=site_of(expression), scaler=scaler)
