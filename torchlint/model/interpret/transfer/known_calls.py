"""Calls with an entry in the table of PyTorch: their effects, and their results."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from torchlint.model.arguments import Arguments, flag, is_false, is_true, written
from torchlint.model.events import Anomaly, Clear, Clip, EmptyCache, Fresh, Grad, MemoryProbe
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.interpret.transfer.training import Training
from torchlint.model.utilities import DataLoader, Kind, Utility
from torchlint.model.values import (
    CallResult,
    Context,
    External,
    Function,
    Module,
    NewTensor,
    Optimizer,
    Phi,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch.effects import (
    Clears,
    Clips,
    DetectsAnomaly,
    Effect,
    FreesCache,
    GoesBackward,
    GradMode,
    ProbesMemory,
    Result,
    Steps,
    SwitchesGradMode,
    TakesGradients,
)
from torchlint.pytorch.table import Api
from torchlint.syntax.python_ast import site_of


class KnownCall:
    """A call of a function in the table."""

    def __init__(self, api: Api, name: str, arguments: Arguments, node: ast.Call) -> None:
        self.api = api
        self.name = name
        """The last name of the callee."""
        self.arguments = arguments
        self.node = node
        self.site = site_of(node)
        self.bound = arguments.bind(api.parameters)

    @property
    def first(self) -> Value | None:
        """The argument of the first parameter."""
        return self.bound.get(self.api.parameters.positional[0]) if self.api.parameters.positional else None

    def given(self, parameter: str) -> Value:
        """The argument for a parameter, or an unknown value."""
        return self.bound.get(parameter) or Plain(self.node)

    def written(self, parameter: str) -> ast.expr:
        """The expression passed for a parameter, or the call if there is none."""
        return written(self.node, self.api.parameters, parameter) or self.node


class KnownCalls(Part):
    """Evaluates calls by their entries in the table."""

    def __init__(self, machine: Machine, tensors: Tensors, training: Training) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.training = training
        self._effects: dict[type[Effect], Callable[[KnownCall, Any], None]] = {
            GoesBackward: self._goes_backward,
            TakesGradients: self._differentiate,
            Steps: self._steps,
            Clears: self._clears,
            Clips: self._clips,
            SwitchesGradMode: self._switches_grad_mode,
            FreesCache: lambda call, effect: self.state.emit(EmptyCache(call.site)),
            ProbesMemory: lambda call, effect: self.state.emit(MemoryProbe(call.site, effect.resets)),
            DetectsAnomaly: self._detects_anomaly,
        }

        self._results: dict[Result, Callable[[KnownCall], Value | None]] = {
            Result.NOTHING: lambda call: Plain(call.node, None),
            Result.PLAIN: lambda call: Plain(call.node),
            Result.SAME: lambda call: call.first,
            Result.DETACHED: self._detached,
            Result.SAME_EACH: self._same_each,
            Result.SCALED: self._scaled,
            Result.COPY: self._copy,
            Result.LEAF: self._leaf,
            Result.GRADIENTS: self._gradients,
            Result.CONTEXT: self._context,
            Result.OPTIMIZER: lambda call: self.new_optimizer(call.name, call.arguments, call.node),
            Result.SCHEDULER: lambda call: self._utility(call, Kind.SCHEDULER, call.arguments.all(), "optimizer"),
            Result.SCALER: lambda call: self._utility(call, Kind.SCALER, (), "enabled"),
            Result.ENGINE: lambda call: self._utility(call, Kind.ENGINE, part="gradient_accumulation_steps"),
            Result.ENGINE_AND_OTHERS: self._engine_and_others,
            Result.LOADER: self._loader,
            Result.DISTRIBUTION: self._distribution,
        }

    def call(self, call: KnownCall) -> Value | None:
        """Call a function of the table and record its effects; None if another part computes the result."""
        returns = self._results.get(call.api.returns)
        if returns is None:
            return None
        for effect in call.api.effects:
            self._effects[type(effect)](call, effect)
        return returns(call)

    # -- effects ------------------------------------------------------------------------------------

    def _differentiate(self, call: KnownCall, effect: TakesGradients) -> None:
        told = [call.bound.get(name) for name in ("allow_unused", "materialize_grads")]
        allows = not call.bound.complete or any(item is not None and not is_false(item) for item in told)
        self.state.emit(Grad(call.site, call.given(effect.of), call.bound.get("inputs"), allows))

    def _goes_backward(self, call: KnownCall, effect: GoesBackward) -> None:
        self.training.emit_backward(call.given(effect.through), call.bound, call.node)

    def _steps(self, call: KnownCall, effect: Steps) -> None:
        self.training.emit_step(resolved(call.given(effect.optimizer)), call.written(effect.optimizer), call.node)

    def _clears(self, call: KnownCall, effect: Clears) -> None:
        self.state.emit(Clear(call.site, None, explicit=False, of=call.given(effect.gradients_of)))

    def _clips(self, call: KnownCall, effect: Clips) -> None:
        self.state.emit(Clip(call.site, call.bound.get(effect.gradients_of), call.bound.get(effect.bound)))

    def _switches_grad_mode(self, call: KnownCall, effect: SwitchesGradMode) -> None:
        if effect.at_once and not self.is_with_item(call.node):
            self.state.mode = _asked_mode(call, effect)

    def is_with_item(self, node: ast.AST) -> bool:
        return isinstance(self.definitions.tree.parent(node), ast.withitem)

    def _detects_anomaly(self, call: KnownCall, effect: DetectsAnomaly) -> None:
        """A context manager does nothing until it is entered."""
        if effect.mode is not None:
            literal = resolved(call.given(effect.mode))
            on = bool(literal.constant) if isinstance(literal, Plain) and literal.is_literal else None
            self.state.emit(Anomaly(call.site, on))
        elif not self.definitions.tree.stands_alone(call.node):
            self.state.emit(Anomaly(call.site, True))

    # -- results ------------------------------------------------------------------------------------

    def _detached(self, call: KnownCall) -> Value | None:
        """`Variable(x)` of old code."""
        if is_true(call.bound.get("requires_grad")):
            leaf = self.tensors.new_leaf(call.node)
            self.observations.copied[leaf] = (call.first,) if call.first is not None else ()
            return leaf
        first = resolved(call.first) if call.first is not None else None
        if isinstance(first, (Tensor, Unknown, Phi)):
            return self.tensors.make(operators.DETACH, (first,), call.node, first)
        return call.first

    def _same_each(self, call: KnownCall) -> Value | None:
        given = [item for item in map(call.bound.get, call.api.parameters.positional) if item is not None]
        if len(given) < 2:
            return given[0] if given else None
        return self.state.stamp(Tuple(call.node, tuple(given)))

    def _scaled(self, call: KnownCall) -> Value | None:
        """`with amp.scale_loss(loss, opt) as scaled:` binds the loss, larger."""
        return self.tensors.make("scale", (call.first,), call.node) if call.first is not None else None

    def _copy(self, call: KnownCall) -> Value | None:
        """A copy of a module, perhaps one with averaged parameters."""
        first = resolved(call.first) if call.first is not None else None
        if isinstance(first, Module):
            # a deep copy has its own parameters; a shallow one shares the module's
            parents = first.parents if call.name == "deepcopy" else (first,)
            return self.state.stamp(Module(call.node, first.name, parents, first.info, first.inplace))
        if call.name == "AveragedModel":
            return self.state.stamp(Module(call.node, call.name, call.arguments.all()))
        return None

    def _leaf(self, call: KnownCall) -> Value:
        if is_false(call.bound.get("requires_grad")):
            return self.state.stamp(NewTensor(call.node))
        return self.tensors.new_leaf(call.node, call.arguments.all())

    def _gradients(self, call: KnownCall) -> Value:
        create = flag(call.bound, "create_graph")
        if create is False:
            made = self.state.stamp(Tensor(call.node, operators.DETACH, (), self.state.mode))
            self.observations.copied[made] = (call.given("outputs"),)
            return made
        mode = self.state.mode if create else GradMode.UNKNOWN
        return self.state.stamp(Tensor(call.node, "grad", (call.given("outputs"),), mode))

    def _context(self, call: KnownCall) -> Value:
        switch = call.api.effects[0]
        assert isinstance(switch, SwitchesGradMode)
        target = resolved(call.first) if call.first is not None else None
        if isinstance(target, Function) and switch.to is not None:
            return Function(target.info, target.frame, target.receiver, switch.to)
        return Context(call.node, _asked_mode(call, switch))

    def _utility(self, call: KnownCall, kind: Kind, parents: tuple[Value, ...] = (), part: str = "") -> Value:
        """A scaler, a scheduler, ...; each argument becomes a part of it with the same name."""
        made, argument = Utility(call.node, kind, parents), call.bound.get(part)
        if argument is not None:
            made.set_part(part, argument)
        return self.state.stamp(made)

    def _distribution(self, call: KnownCall) -> Value:
        """A distribution of the class that the callee names."""
        made = Utility(call.node, Kind.DISTRIBUTION, call.arguments.all())
        made.callee = External(call.node, call.name)
        return self.state.stamp(made)

    def _engine_and_others(self, call: KnownCall) -> Value:
        engine = self._utility(call, Kind.ENGINE)
        engine.used_as("engine")
        for parameter in ("model", "optimizer", "model_parameters"):
            if (given := call.bound.get(parameter)) is not None:
                engine.set_part(parameter, given)
        result = self.state.stamp(CallResult(call.node, call.arguments.all(), "deepspeed"))
        for place, value in enumerate((engine, call.bound.get("optimizer"))):
            if value is not None:
                result.set_part(f"[{place}]", value)
        return result

    def _loader(self, call: KnownCall) -> Value:
        made = DataLoader(call.node, call.arguments.all(), call.name)
        made.callee, made.mode = External(call.node, call.api.names[0]), self.state.mode
        for parameter, value in call.bound.values.items():
            made.set_part(parameter, value)
        self.observations.loaders.append(made)
        return self.state.stamp(made)

    def new_optimizer(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        given = arguments.get(0, "params")
        made = self.state.stamp(Optimizer(node, name, (given,) if given is not None else arguments.all()[:1]))
        self.state.emit(Fresh(site_of(node), made))
        return made


def _asked_mode(call: KnownCall, switch: SwitchesGradMode) -> GradMode:
    """The mode that a context manager sets, or the one its argument selects."""
    if call.first is None:
        return switch.to or GradMode.UNKNOWN
    target = resolved(call.first)
    literal = target.constant if isinstance(target, Plain) and target.is_literal else None
    if not isinstance(literal, bool):
        return GradMode.UNKNOWN
    return GradMode.ON if literal is not (switch.to is GradMode.OFF) else GradMode.OFF
