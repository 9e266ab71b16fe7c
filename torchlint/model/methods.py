"""Method calls: what they do to optimizers, tensors, modules and containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import libcst as cst

from torchlint.model import hints, knowledge
from torchlint.model.definitions import ClassInfo, dotted
from torchlint.model.events import Backward, Call, Clear, Compute, Fresh, GradRead, Keep, Loop, MayClear, Step
from torchlint.model.operators import INPLACE, OPERATORS, VIEWS
from torchlint.model.summaries import Arguments, Summaries
from torchlint.model.values import (
    Container,
    External,
    Function,
    GradMode,
    Instance,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)

_SCALING = frozenset({"fill_", "mul_"})


class Methods(Summaries):
    """Calls of the form `receiver.name(...)`."""

    def mutate(
        self,
        node: cst.CSTNode,
        target: cst.BaseExpression | None,
        old: Value,
        how: str,
        by: tuple[Value, ...],
    ) -> Value:
        """Record a change in place."""
        raise NotImplementedError

    def call_value(self, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
        """Call a value."""
        raise NotImplementedError

    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        """The result of `receiver.name(arguments)`."""
        receiver = resolved(receiver)
        if isinstance(receiver, (Instance, Module, Optimizer)):
            local = self._local_method(receiver, name, arguments, node)
            if local is not None:
                return local
        if isinstance(receiver, Unknown) and receiver.origin == "super":
            return self._super_method(receiver, name, arguments, node)
        for item in inputs_of(receiver):
            item.used_as(name)
        handler = self._methods.get(name)
        if handler is not None:
            result = handler(self, receiver, arguments, node)
            if result is not None:
                return result
        if isinstance(receiver, Container):
            return self._container_method(receiver, name, arguments, node)
        if isinstance(receiver, Plain):
            return Plain(node)
        if name in knowledge.TENSOR_METHODS or name in knowledge.PASSING_METHODS or isinstance(receiver, Tensor):
            if not isinstance(receiver, (Instance, Module, Optimizer, External)):
                return self._tensor_method(receiver, name, arguments, node)
        return self._unknown_method(receiver, name, arguments, node)

    def _local_method(self, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value | None:
        """A method of a class of this module, or a function stored as an attribute."""
        info = getattr(receiver, "info", None)
        stored = self.heap.get((receiver, name))
        if stored is None and info is not None:
            stored = self.attribute(receiver, name, node)
        if stored is None or isinstance(stored, Plain):
            return None
        if (
            isinstance(stored, Unknown)
            and stored.origin == "attribute"
            and not self._is_data_attribute(stored, info, name)
        ):
            return None
        if isinstance(receiver, Module) and isinstance(stored, Unknown):
            return self.module_result(stored, arguments, node)
        return self.call_value(stored, arguments, node)

    def module_result(self, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
        """The output of a module."""
        raise NotImplementedError

    def _super_method(self, receiver: Unknown, name: str, arguments: Arguments, node: cst.Call) -> Value:
        """`super().method(...)`: of a base in this module, else unknown, and handed the object."""
        method = self.frame.info
        while method is not None and method.owner is None:
            method = method.enclosing
        if method is None or method.owner is None or not self.frame.locals:
            return self.unresolved(receiver, name, arguments.all(), node)
        instance = self.lookup(method.parameters[0]) if method.parameters else receiver
        for base in self.definitions.ancestors_of(method.owner):
            if isinstance(base, ClassInfo) and base is not method.owner and name in base.methods:
                function = Function(base.methods[name], self.module_frame, instance)
                return self.call_value(function, arguments, node)
        return self.unresolved(receiver, name, (instance, *arguments.all()), node)

    def _is_data_attribute(self, stored: Unknown, info: ClassInfo | None, name: str) -> bool:
        """Whether `self.name(...)` calls an object that is stored there, not an inherited method."""
        if info is not None and name in info.assigned:
            return True
        return bool(stored.uses) or bool(hints.MODULE.search(name))

    # -- training -----------------------------------------------------------------------------------

    def _zero_grad(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        self.emit(Clear(node, receiver))
        return Plain(node, None)

    def _backward(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        if isinstance(receiver, External):
            return None
        loss = receiver
        if arguments.positional and self._is_engine(receiver):
            loss = arguments.positional[0]
            receiver.used_as("engine")
        self.emit_backward(loss, arguments, node)
        return Plain(node, None)

    def _is_engine(self, receiver: Value) -> bool:
        """Whether `x.backward(loss)` is an accelerator's, not a tensor's."""
        if isinstance(receiver, (Instance, Module, Optimizer)):
            return True
        if isinstance(receiver, Unknown):
            if receiver.origin == "engine" or receiver.has_use("prepare", "unwrap_model", "setup", "step", "zero_grad"):
                return True
            return bool(hints.ENGINE.search(receiver.label))
        return False

    def _manual_backward(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        if not arguments.positional:
            return None
        self.emit_backward(arguments.positional[0], arguments, node)
        return Plain(node, None)

    def emit_backward(self, loss: Value, arguments: Arguments, node: cst.CSTNode) -> None:
        """A backward pass through `loss`."""
        retain, create = _flag(arguments, "retain_graph"), _flag(arguments, "create_graph")
        self.emit(Backward(node, loss, retain, create))
        self.backwards.append(loss)

    def _step(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if first is not None and self._is_scaler(receiver, first):
            self.emit(Step(node, first, _text(node.args[0].value, first)))
            return Plain(node, None)
        closure = first if isinstance(first, Function) else arguments.keywords.get("closure")
        if not self.may_be_optimizer(receiver) or (
            first is not None and closure is None and not self._is_closure(receiver, first)
        ):
            return None
        assert isinstance(node.func, cst.Attribute)
        step = Step(node, receiver, _text(node.func.value, receiver))
        if isinstance(closure, Function) and self.can_inline(closure.info):
            closure = Function(closure.info, closure.frame, closure.receiver, GradMode.ON)
            return self._step_with_closure(step, closure, node)
        self.emit(step)
        if isinstance(receiver, Unknown) and receiver.has_use("engine"):
            self.emit(Clear(node, receiver, explicit=False))
        return Plain(node, None)

    def _step_with_closure(self, step: Step, closure: Function, node: cst.Call) -> Value:
        """The closure runs inside the step; LBFGS runs it many times, and updates after each."""
        if not (isinstance(step.optimizer, Optimizer) and "LBFGS" in step.optimizer.name):
            loss = self.inline(closure, Arguments([], {}, []), node)
            self.emit(step)
            return loss
        loop, outer = Loop(node, [], True, len(self.calls)), self.items
        self.loops, self.items = (*self.loops, loop), loop.body
        loss = self.inline(closure, Arguments([], {}, []), node)
        self.emit(step)
        self.loops, self.items = self.loops[:-1], outer
        self.items.append(loop)
        return loss

    def _is_closure(self, receiver: Value, first: Value) -> bool:
        return isinstance(receiver, Optimizer) or (isinstance(first, Unknown) and "closure" in first.label)

    def _is_scaler(self, receiver: Value, first: Value) -> bool:
        """Whether `x.step(o)` is a gradient scaler's step of the optimizer `o`."""
        if isinstance(first, Optimizer):
            return True
        if not isinstance(first, Unknown) or isinstance(receiver, Optimizer):
            return False
        if isinstance(receiver, Unknown) and receiver.origin == "scaler":
            return True
        return bool(hints.SCALER.search(receiver.label)) or first.has_use("zero_grad")

    def may_be_optimizer(self, receiver: Value) -> bool:
        """An optimizer by its class, by the methods called on it, or by its name."""
        if isinstance(receiver, Optimizer):
            return True
        if isinstance(receiver, Phi):
            return any(self.may_be_optimizer(item) for item in inputs_of(receiver))
        if isinstance(receiver, Unknown):
            if receiver.origin in ("scheduler", "scaler"):
                return False
            label = receiver.label if not receiver.label.startswith("[") else owner_label(receiver)
            return receiver.has_use("zero_grad", "engine") or hints.looks_like_optimizer(label)
        return False

    def _optimizer_step(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        """`xm.optimizer_step(o)`."""
        if not isinstance(receiver, External) or not arguments.positional:
            return None
        first = resolved(arguments.positional[0])
        self.emit(Step(node, first, _text(node.args[0].value, first)))
        return Plain(node, None)

    def _scale(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        """`scaler.scale(loss)`: the loss, larger."""
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, External, Container)):
            return None
        return self.made_tensor("scale", (arguments.positional[0],), node)

    def _prepare(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        """`accelerator.prepare(model, optimizer)` and `fabric.setup(...)` hand their arguments on."""
        if isinstance(receiver, (Tensor, Container, External)) or not arguments.positional:
            return None
        if isinstance(receiver, Unknown) and not (hints.ENGINE.search(receiver.label) or receiver.origin == "engine"):
            return None
        if len(arguments.positional) == 1:
            return arguments.positional[0]
        return self.made(Container(node, "tuple", tuple(arguments.positional)))

    # -- modules ------------------------------------------------------------------------------------

    def _parameters(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        known = receiver.part("parameters()")
        if known is None:
            known = self.made(Parameters(node, (receiver,)))
            known.loops, known.order = receiver.loops, receiver.order
            receiver.set_part("parameters()", known)
        return known

    def _named_parameters(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        pair = self.made(
            Container(node, "tuple", (Plain(node), self.element(self._parameters_of(receiver, node), None, node)))
        )
        return self.made(Container(node, "generator", (pair,)))

    def _parameters_of(self, receiver: Value, node: cst.Call) -> Value:
        found = self._parameters(receiver, Arguments([], {}, []), node)
        assert found is not None
        return found

    def _itself(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        """`model.cuda()` is the model; of an unknown it may be a tensor or module, the same for us."""
        if isinstance(receiver, (Module, Unknown, Optimizer, Parameters, Phi)):
            if isinstance(receiver, Unknown) and receiver.origin == "grad":
                return None
            return receiver
        if isinstance(receiver, Tensor):
            if receiver.leaf:
                return self.made_tensor("to", (receiver,), node)
            return None
        return None

    def _requires_grad(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        flag = arguments.get(0, "requires_grad")
        if isinstance(flag, Plain) and flag.constant is False:
            self.frozen.add(receiver)
            return receiver
        if isinstance(receiver, (Module, Parameters)):
            return receiver
        leaf = self.new_leaf(node, (receiver,), receiver)
        if (
            isinstance(node.func, cst.Attribute)
            and isinstance(node.func.value, cst.Name)
            and not isinstance(receiver, Module)
        ):
            if not receiver.has_use(*knowledge.MODULE_EVIDENCE):
                self.assign_target(node.func.value, leaf)
                return leaf
        return leaf

    def _detach_in_place(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        assert isinstance(node.func, cst.Attribute)
        cut = self.made_tensor("detach", (receiver,), node, receiver)
        if isinstance(node.func.value, (cst.Name, cst.Attribute)) and not isinstance(receiver, Module):
            self.assign_target(node.func.value, cut)
        return cut

    # -- tensors ------------------------------------------------------------------------------------

    def _plain_result(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        if isinstance(receiver, (Instance, External)):
            return None
        if isinstance(receiver, (Tensor, Unknown, Phi)) and _callee_name(node) == "numpy":
            return self.made(Tensor(node, "numpy", (receiver,), self.mode, base=receiver))
        return Plain(node)

    def _tensor_method(self, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if name in INPLACE:
            return self._in_place(receiver, name, arguments, node)
        if name in knowledge.CREATOR_METHODS:
            return self.created(name, arguments, node)
        base = receiver if name in VIEWS else None
        return self.computed(name, (receiver, *arguments.all()), node, base)

    def computed(self, op: str, parents: tuple[Value, ...], node: cst.CSTNode, base: Value | None = None) -> Value:
        """The result of an operator, recorded as an event where it may save something."""
        result = self.made_tensor(op, parents, node, base)
        if op in OPERATORS:
            self.emit(Compute(node, result))
        return result

    def _in_place(self, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        assert isinstance(node.func, cst.Attribute)
        if self._is_gradient(receiver):
            by = resolved(arguments.positional[0]) if arguments.positional else None
            zeroed = name == "zero_" or (name in _SCALING and isinstance(by, Plain) and by.constant == 0)
            self.emit(Clear(node, None, explicit=False) if zeroed else GradRead(node))
            return receiver
        return self.mutate(node, node.func.value, receiver, name, arguments.all())

    def _is_gradient(self, value: Value) -> bool:
        while isinstance(value, Tensor) and value.op in ("data", "detach") and value.base is not None:
            value = resolved(value.base)
        return isinstance(value, Unknown) and value.origin == "grad"

    def new_leaf(self, node: cst.CSTNode, parents: tuple[Value, ...] = (), base: Value | None = None) -> Tensor:
        """A leaf that requires grad, without a gradient yet."""
        leaf = self.made(Tensor(node, "leaf", parents, base=base, leaf=True))
        self.emit(Fresh(node, leaf))
        return leaf

    def created(self, name: str, arguments: Arguments, node: cst.CSTNode) -> Tensor:
        """A new tensor without history, or a leaf where it is told to require a gradient."""
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is True:
            return self.new_leaf(node)
        op = "new" if flag is None or (isinstance(flag, Plain) and flag.constant is False) else "unknown"
        return self.made(Tensor(node, op, () if op == "new" else arguments.all()))

    # -- containers ---------------------------------------------------------------------------------

    def _append(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, Module, External, Plain)):
            return None
        value = arguments.positional[0]
        if isinstance(receiver, Container):
            receiver.add(value)
        known = isinstance(receiver, Container) or _callee_name(node) != "add"
        if known and isinstance(receiver, (Container, Unknown, Phi)):
            assert isinstance(node.func, cst.Attribute)
            self.emit(Keep(node, receiver, value, "append", dotted(node.func.value)))
        return Plain(node, None)

    def _extend(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, Module, External, Plain)):
            return None
        inner = resolved(arguments.positional[0])
        if isinstance(inner, Container):
            for item in inner.elements():
                self._append(receiver, Arguments([item], {}, []), node)
        return Plain(node, None)

    def _insert(self, receiver: Value, arguments: Arguments, node: cst.Call) -> Value | None:
        if len(arguments.positional) != 2:
            return None
        return self._append(receiver, Arguments(arguments.positional[1:], {}, []), node)

    def _container_method(self, receiver: Container, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if name == "items":
            pair = Container(node, "tuple", (Plain(node), self.element(receiver, None, node)))
            return self.made(Container(node, "generator", (self.made(pair),)))
        if name in ("values", "copy"):
            return receiver
        if name in ("get", "pop", "setdefault", "popleft"):
            key = arguments.positional[0] if arguments.positional else None
            literal = key.constant if isinstance(key, Plain) and key.is_literal else None
            if (
                name == "setdefault"
                and len(arguments.positional) == 2
                and isinstance(literal, str)
                and receiver.part(literal) is None
            ):
                receiver.set_part(literal, arguments.positional[1])
            return self.element(receiver, literal, node)
        if name == "update" and receiver.kind == "meter" and arguments.positional:
            assert isinstance(node.func, cst.Attribute)
            self.emit(Keep(node, receiver, arguments.positional[0], "add", dotted(node.func.value)))
        if name == "update" and receiver.kind == "dict":
            for value in arguments.all():
                inner = resolved(value)
                for item in inner.elements() if isinstance(inner, Container) else [value]:
                    receiver.add(item)
        if name == "clear":
            self.emit(Keep(node, receiver, Plain(node), "clear", ""))
        return Plain(node)

    # -- unknown ------------------------------------------------------------------------------------

    def _unknown_method(self, receiver: Value, name: str, arguments: Arguments, node: cst.Call) -> Value:
        if isinstance(receiver, External):
            return self.call_value(self.attribute(receiver, name, node), arguments, node)
        part = self.part_of(receiver, name, "method", node)
        return self.unresolved(part, name, (receiver, *arguments.all()), node)

    def unresolved(self, callee: Value, name: str, handed: tuple[Value, ...], node: cst.Call) -> Value:
        """The result of a call that this module does not define: it may do anything to what it is handed."""
        origin = "object" if hints.is_class_name(name) else "call"
        result = self.made(Unknown(node, origin, handed, "", callee, self.mode))
        self.emit(Call(node, result))
        objects = tuple(item for item in handed if not isinstance(resolved(item), (Plain, Tensor, External, Function)))
        if objects and not self._is_bystander(handed[0], node):
            receiver = handed[0] if isinstance(node.func, cst.Attribute) and not isinstance(callee, External) else None
            self.emit(MayClear(node, name, objects, receiver))
        return result

    def _is_bystander(self, first: Value, node: cst.Call) -> bool:
        """A method of a logger, meter, scheduler or accelerator: none of them clears gradients."""
        if not isinstance(node.func, cst.Attribute):
            return False
        owner = resolved(first)
        if isinstance(owner, Unknown) and owner.origin in ("engine", "scaler", "scheduler"):
            return True
        label = owner_label(owner)
        return isinstance(owner, Unknown) and bool(hints.BYSTANDER.search(label) or hints.ENGINE.search(label))

    backwards: list[Value]
    frozen: set[Value]
    Handler = Callable[["Methods", Value, Arguments, cst.Call], "Value | None"]
    _methods: ClassVar[dict[str, Handler]] = {
        "zero_grad": _zero_grad, "backward": _backward, "manual_backward": _manual_backward, "step": _step,
        "optimizer_step": _optimizer_step, "scale": _scale, "prepare": _prepare, "setup": _prepare,
        "detach_": _detach_in_place, "parameters": _parameters, "named_parameters": _named_parameters,
        "requires_grad_": _requires_grad,
        "append": _append, "appendleft": _append, "add": _append, "extend": _extend, "insert": _insert,
        **dict.fromkeys(knowledge.SELF_METHODS - {"requires_grad_"}, _itself),
        **dict.fromkeys(knowledge.PLAIN_METHODS, _plain_result),
    }  # fmt: skip


def _flag(arguments: Arguments, name: str) -> bool | None:
    value = arguments.keywords.get(name)
    if value is None:
        return False
    value = resolved(value)
    return bool(value.constant) if isinstance(value, Plain) and value.is_literal else None


def owner_label(value: Value) -> str:
    """The name of a value, or of the container it is an element of."""
    while value.label.startswith("[") and value.parents:
        value = value.parents[0]
    return value.label


def _text(node: cst.BaseExpression, value: Value) -> str:
    """What the program calls a value."""
    return dotted(node) or value.label.strip("[]'") or "the optimizer"


def _callee_name(node: cst.Call) -> str:
    return node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
