"""New tensors: results of operators, tensors without history, and leaves."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, is_false, is_true
from torchlint.model.events import Clear, Compute, Fresh, GradRead, Mutate
from torchlint.model.heap import Change, Contents
from torchlint.model.interpret.machine import Part
from torchlint.model.kinds import note_index, note_tensor
from torchlint.model.lineage import attached
from torchlint.model.values import (
    CallResult,
    Container,
    Gradient,
    Instance,
    Iteration,
    Leaf,
    ModuleParameter,
    NewTensor,
    Parameters,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import api, operators
from torchlint.pytorch.autograd_table import OPERATORS
from torchlint.pytorch.indexing import INDICES
from torchlint.syntax.python_ast import site_of

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.Mod: "remainder", ast.FloorDiv: "floor_divide",
}  # fmt: skip


_OVERWRITING = frozenset({"zero_", "fill_", "copy_", "set_"})


class Tensors(Part):
    """Creates tensors in the current grad mode."""

    def make(self, op: str, parents: tuple[Value, ...], node: ast.AST, base: Value | None = None) -> Tensor:
        """The result of a tensor operator in the current grad mode."""
        return self.state.stamp(Tensor(node, op, parents, self.state.mode, base=base))

    def compute(self, op: str, parents: tuple[Value, ...], node: ast.AST, base: Value | None = None) -> Value:
        """The result of an operator, with an event if it may save something for backward."""
        position = INDICES.get(op)
        if position is not None and position < len(parents):
            note_index(parents[position])
        return self._recorded(self.make(op, parents, node, base), node)

    def again(self, tensor: Tensor, node: ast.AST) -> Value:
        """Another tensor computed in the same way, recorded as with `compute`."""
        return self._recorded(self.state.stamp(tensor.made_again(node, self.state.mode)), node)

    def _recorded(self, result: Tensor, node: ast.AST) -> Tensor:
        if result.op in OPERATORS:
            self.state.emit(Compute(site_of(node), result))
        return result

    def operate(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        """The result of a binary operator; a number for two numbers, a list for two lists."""
        if overloads(left, op):
            return self.state.stamp(CallResult(node, (left, right), "", None, self.state.mode))
        if isinstance(left, Plain) and isinstance(right, Plain):
            return self.number(op, (left, right), node)
        containers = [item for item in (left, right) if isinstance(item, Container)]
        if containers and op in ("add", "mul"):
            sides = (left, right) if op == "add" else containers
            inside = tuple(value for item in sides for value in self._items_of(item, node))
            joined = self.state.stamp(type(containers[0])(node, inside))
            joined.is_open = (op == "add" and len(containers) == 1) or any(item.is_open for item in containers)
            joined.unsure = joined.is_open or any(item.unsure for item in containers)
            self.state.contents[joined] = self.state.stamp(Contents(node, Change.PUT, (left, right)))
            return joined
        result = self.make(op, (left, right), node)
        if op == "matmul":
            note_tensor(left)
            note_tensor(right)
        if op in ("mul", "div", "pow", "matmul"):
            self.state.emit(Compute(site_of(node), result))
        return result

    def _items_of(self, summand: Value, node: ast.AST) -> list[Value]:
        """The items that a summand adds to a list: one stands for all parameters of a module, or for unknown items."""
        if isinstance(summand, Container):
            return summand.elements()
        if isinstance(summand, Parameters):
            return [self.parameter_of(summand, node)]
        if isinstance(summand, Tensor) and summand.op == operators.ADD:
            return [value for item in summand.parents for value in self._items_of(resolved(item), node)]
        return [self.state.stamp(Iteration(node, (summand,)))] if isinstance(summand, Unknown) else []

    def parameter_of(self, parameters: Parameters, node: ast.AST) -> Value:
        """The value that stands for each of a module's parameters."""
        known = parameters.part("[]")
        if known is None:
            known = ModuleParameter(node, parameters.parents, leaf=True)
            known.order, known.loops = parameters.order, parameters.loops
            parameters.set_part("[]", known)
        return known

    def number(self, how: str, operands: tuple[Value, ...], node: ast.AST, key: object = None) -> Plain:
        """The number, or shape, that an operator or attribute gives."""
        made = Plain(node)
        self.observations.numbers[made] = how, operands, key
        return made

    def create(self, name: str, arguments: Arguments, node: ast.AST) -> Tensor:
        """A new tensor without history, or a leaf if it requires a gradient."""
        flag = arguments.keywords.get("requires_grad")
        given = resolved(arguments.positional[0]) if arguments.positional else None
        if is_true(flag):
            made = self.new_leaf(node)
        elif flag is None and name in api.HANDING_ON and isinstance(given, Tensor):
            made = self.make(operators.TO, (given,), node)
        else:
            is_new = flag is None or is_false(flag)
            made = self.state.stamp(NewTensor(node) if is_new else Tensor(node, "unknown", arguments.all()))
        self.observations.calls[made] = name, arguments, None
        if name in api.COPIERS:
            self.observations.copied[made] = tuple(arguments.positional[:1])
        return made

    def new_leaf(self, node: ast.AST, parents: tuple[Value, ...] = (), base: Value | None = None) -> Tensor:
        """A leaf that requires grad, without a gradient yet."""
        leaf = self.state.stamp(Leaf(node, parents, base=base, leaf=True))
        self.state.emit(Fresh(site_of(node), leaf))
        return leaf

    def mutate(self, node: ast.AST, old: Value, how: str, by: tuple[Value, ...]) -> Tensor:
        """Record an in-place change of a value and return its new value."""
        result = self.make(how, (old, *by), node, base=old)
        self.state.emit(Mutate(site_of(node), old, how, result, by))
        return result

    def is_gradient(self, value: Value) -> bool:
        """Whether a value is the `.grad` of something."""
        value = attached(value)
        return isinstance(value, Gradient)

    def change_gradient(self, gradient: Value, how: str, by: tuple[Value, ...], node: ast.AST) -> None:
        """Record an in-place change of a gradient; overwriting it or multiplying it by 0 clears it."""
        owner = resolved(attached(gradient).parents[0])
        first = resolved(by[0]) if by else None
        by_zero = how in ("mul", "mul_") and isinstance(first, Plain) and first.constant == 0
        self.state.emit(
            Clear(site_of(node), None, explicit=False, of=owner)
            if how in _OVERWRITING or by_zero
            else GradRead(site_of(node), True, owner)
        )


def operator_of(node: ast.AST) -> str:
    """The tensor operator of a binary or augmented operator; bitwise operators carry no graph."""
    return _OPERATORS.get(type(node), "bitwise")


def overloads(value: Value, op: str) -> bool:
    """Whether the class of an object, in this program, overloads an operator."""
    owner = resolved(value)
    names = (f"__{op}__", f"__i{op}__")
    return isinstance(owner, Instance) and any(owner.info.method(name) is not None for name in names)
