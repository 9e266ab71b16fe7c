"""Method calls: what they do to optimizers, tensors, modules and containers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from torchlint import hints, knowledge
from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Call, Clear, Compute, GradRead, Keep, MayClear
from torchlint.model.summaries import Arguments
from torchlint.model.training import Training, owner_label
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
    resolved,
)
from torchlint.operators import INPLACE, OPERATORS, VIEWS
from torchlint.pythontree import dotted, site_of

_OVERWRITING = frozenset({"zero_", "fill_", "copy_"})


class Methods(Training):
    """Calls of the form `receiver.name(...)`."""

    def mutate(
        self,
        node: ast.AST,
        target: ast.expr | None,
        old: Value,
        how: str,
        by: tuple[Value, ...],
    ) -> Value:
        """Record a change in place."""
        raise NotImplementedError

    def call_value(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """Call a value."""
        raise NotImplementedError

    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
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

    def _local_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
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

    def module_result(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """The output of a module."""
        raise NotImplementedError

    def _super_method(self, receiver: Unknown, name: str, arguments: Arguments, node: ast.Call) -> Value:
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

    # -- modules ------------------------------------------------------------------------------------

    # -- tensors ------------------------------------------------------------------------------------

    def _plain_result(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if isinstance(receiver, (Instance, External)):
            return None
        if isinstance(receiver, (Tensor, Unknown, Phi)) and _callee_name(node) == "numpy":
            return self.made(Tensor(node, "numpy", (receiver,), self.mode, base=receiver))
        return Plain(node)

    def _tensor_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if name in INPLACE:
            return self._in_place(receiver, name, arguments, node)
        if name in knowledge.CREATOR_METHODS:
            return self.created(name, arguments, node)
        base = receiver if name in VIEWS else None
        return self.computed(name, (receiver, *arguments.all()), node, base)

    def computed(self, op: str, parents: tuple[Value, ...], node: ast.AST, base: Value | None = None) -> Value:
        """The result of an operator, recorded as an event where it may save something."""
        result = self.made_tensor(op, parents, node, base)
        if op in OPERATORS:
            self.emit(Compute(site_of(node), result))
        return result

    def _in_place(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        assert isinstance(node.func, ast.Attribute)
        if self.is_gradient(receiver):
            self.change_gradient(name, arguments.all(), node)
            return receiver
        return self.mutate(node, node.func.value, receiver, name, arguments.all())

    def change_gradient(self, how: str, by: tuple[Value, ...], node: ast.AST) -> None:
        """Record that a gradient is changed in place: cleared, where it is overwritten or multiplied by 0."""
        first = resolved(by[0]) if by else None
        by_zero = how in ("mul", "mul_") and isinstance(first, Plain) and first.constant == 0
        self.emit(
            Clear(site_of(node), None, explicit=False) if how in _OVERWRITING or by_zero else GradRead(site_of(node))
        )

    def is_gradient(self, value: Value) -> bool:
        """Whether a value is the `.grad` of something."""
        while isinstance(value, Tensor) and value.op in ("data", "detach") and value.base is not None:
            value = resolved(value.base)
        return isinstance(value, Unknown) and value.origin == "grad"

    def created(self, name: str, arguments: Arguments, node: ast.AST) -> Tensor:
        """A new tensor without history, or a leaf where it is told to require a gradient."""
        flag = arguments.keywords.get("requires_grad")
        if isinstance(flag, Plain) and flag.constant is True:
            return self.new_leaf(node)
        op = "new" if flag is None or (isinstance(flag, Plain) and flag.constant is False) else "unknown"
        return self.made(Tensor(node, op, () if op == "new" else arguments.all()))

    # -- containers ---------------------------------------------------------------------------------

    def _append(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, Module, External, Plain)):
            return None
        value = arguments.positional[0]
        if isinstance(receiver, Container):
            receiver.add(value)
        known = isinstance(receiver, Container) or _callee_name(node) != "add"
        if known and isinstance(receiver, (Container, Unknown, Phi)):
            assert isinstance(node.func, ast.Attribute)
            self.emit(Keep(site_of(node), receiver, value, "append", dotted(node.func.value)))
        return Plain(node, None)

    def _extend(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, Module, External, Plain)):
            return None
        inner = resolved(arguments.positional[0])
        if isinstance(inner, Container):
            for item in inner.elements():
                self._append(receiver, Arguments([item], {}, []), node)
        return Plain(node, None)

    def _insert(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 2:
            return None
        return self._append(receiver, Arguments(arguments.positional[1:], {}, []), node)

    def _container_method(self, receiver: Container, name: str, arguments: Arguments, node: ast.Call) -> Value:
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
            assert isinstance(node.func, ast.Attribute)
            self.emit(Keep(site_of(node), receiver, arguments.positional[0], "add", dotted(node.func.value)))
        if name == "update" and receiver.kind == "dict":
            for value in arguments.all():
                inner = resolved(value)
                for item in inner.elements() if isinstance(inner, Container) else [value]:
                    receiver.add(item)
        if name == "clear":
            self.emit(Keep(site_of(node), receiver, Plain(node), "clear", ""))
        return Plain(node)

    # -- unknown ------------------------------------------------------------------------------------

    def _unknown_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if isinstance(receiver, External):
            return self.call_value(self.attribute(receiver, name, node), arguments, node)
        part = self.part_of(receiver, name, "method", node)
        return self.unresolved(part, name, (receiver, *arguments.all()), node)

    def unresolved(self, callee: Value, name: str, handed: tuple[Value, ...], node: ast.Call) -> Value:
        """The result of a call that this module does not define: it may do anything to what it is handed."""
        origin = "object" if hints.is_class_name(name) else "call"
        result = self.made(Unknown(node, origin, handed, "", callee, self.mode))
        self.emit(Call(site_of(node), result))
        objects = tuple(item for item in handed if not isinstance(resolved(item), (Plain, Tensor, External, Function)))
        if objects and not self._is_bystander(handed[0], node):
            receiver = handed[0] if isinstance(node.func, ast.Attribute) and not isinstance(callee, External) else None
            self.emit(MayClear(site_of(node), name, objects, receiver))
        return result

    def _is_bystander(self, first: Value, node: ast.Call) -> bool:
        """A method of a logger, meter, scheduler or accelerator: none of them clears gradients."""
        if not isinstance(node.func, ast.Attribute):
            return False
        owner = resolved(first)
        if isinstance(owner, Unknown) and owner.origin in ("engine", "scaler", "scheduler"):
            return True
        label = owner_label(owner)
        return isinstance(owner, Unknown) and bool(hints.BYSTANDER.search(label) or hints.ENGINE.search(label))

    _methods: ClassVar[dict[str, Callable[..., Value | None]]] = {
        **Training.training_methods,
        "append": _append, "appendleft": _append, "add": _append, "extend": _extend, "insert": _insert,
        **dict.fromkeys(knowledge.PLAIN_METHODS, _plain_result),
    }  # fmt: skip


def _callee_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""
