"""Operations: the selection of the operator, layer or module behind a value, with its arguments by parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torchlint.model.shapes import arithmetic, creation, joining, layers, rearranging, reducing, states
from torchlint.model.shapes.case import Case, Stop
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.scope import Scope
from torchlint.model.shapes.tensor_type import ANY, TensorType
from torchlint.model.values import (
    Component,
    Container,
    Leaf,
    Module,
    ModuleOutput,
    ModuleParameter,
    NewTensor,
    Plain,
    Tensor,
    Value,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch import shapes as table

Handler = Callable[[Operation], TensorType]
_ARITHMETIC = frozenset(
    {
        operators.ADD, operators.SUB, operators.MUL, operators.DIV, operators.POW, operators.REMAINDER,
        operators.FLOOR_DIVIDE, operators.BITWISE,
    }
)  # fmt: skip
"""Python's operators, which change their first operand in place in the form `x += y`."""
_HANDLERS: Mapping[str, Handler] = {
    **arithmetic.HANDLERS,
    **creation.HANDLERS,
    **joining.HANDLERS,
    **rearranging.HANDLERS,
    **reducing.HANDLERS,
    **layers.FUNCTIONS,
}


def type_of(case: Case, value: Tensor, scope: Scope) -> TensorType:
    """The type of the result of an operator, a layer or a module."""
    if isinstance(value, ModuleOutput):
        return _of_call(case, value, scope)
    state = states.state_type(case, value, scope) if isinstance(value, Component) or _is_element(value) else None
    if state is not None:
        return state
    if isinstance(value, Component):
        return _of_component(case, value, scope)
    if isinstance(value, (NewTensor, Leaf, ModuleParameter)):
        return _of_creation(case, value, scope)
    if value.op == operators.ARGMAX and value not in case.observations.calls:
        return part_of_extremum(case, resolved(value.parents[0]), 1, scope) or ANY
    if _is_change(value):
        return arithmetic.changed_in_place(case, value, scope)
    transfer = table.OPERATORS.get(value.op)
    return _HANDLERS[transfer.kind](operation(case, value, transfer, scope)) if transfer is not None else ANY


def _is_change(value: Tensor) -> bool:
    """Whether a value is the result of an in-place change of its first operand: `x += y`, `x.add_(y)`, `x[0] = y`."""
    if not value.parents or value.base is not value.parents[0]:
        return False
    if value.op.endswith("_") or value.op == operators.SETITEM or value.op[:1].isupper():
        return value.op not in table.IN_PLACE_SHAPES
    return value.op in _ARITHMETIC


def _is_element(value: Tensor) -> bool:
    """Whether a value is an element of a module's result: `h` of `_, (h, c) = lstm(x)`."""
    return value.op == operators.GETITEM and isinstance(resolved(value.parents[0]), Component)


def operation(case: Case, value: Tensor, transfer: table.Transfer, scope: Scope) -> Operation:
    """An operation with its arguments."""
    made = case.observations.calls.get(value)
    if made is None:
        operands = dict(zip(transfer.parameters.positional, value.parents, strict=False))
        left = value.parents[len(operands) :]
        return Operation(case, value, scope, transfer, operands, left, not transfer.rest or bool(left))
    bound = made[1].bind(transfer.parameters, made[2])
    is_sure = case.arguments_of(value) is not None and not made[1].starred
    rest = tuple(bound.rest) if is_sure else ()
    named = [given for option in transfer.rest.split("|") if (given := made[1].keywords.get(option)) is not None]
    return Operation(case, value, scope, transfer, bound.values, named or rest, is_sure)


def part_of_extremum(case: Case, owner: Value, part: int, scope: Scope) -> TensorType | None:
    """The values, or the indices, of `max(dim)`; None for anything else."""
    transfer = table.OPERATORS.get(owner.op) if isinstance(owner, Tensor) else None
    if not isinstance(owner, Tensor) or transfer is None or transfer.kind != table.EXTREMUM:
        return None
    return reducing.part_of_extremum(operation(case, owner, transfer, scope), part)


def _of_creation(case: Case, value: Tensor, scope: Scope) -> TensorType:
    made = case.observations.calls.get(value)
    if made is None:
        first = value.parents[0] if isinstance(value, Leaf) and value.parents else None
        is_copy = isinstance(first, Value) and isinstance(resolved(first), Tensor)
        return case.type_of(first, scope) if first is not None and is_copy else ANY
    transfer = table.CREATORS.get(made[0])
    return _HANDLERS[transfer.kind](operation(case, value, transfer, scope)) if transfer is not None else ANY


# -- modules --------------------------------------------------------------------------------------------


def _of_call(case: Case, value: ModuleOutput, scope: Scope) -> TensorType:
    """The output type of a layer, or of a module of the program."""
    module = resolved(value.parents[0])
    made = case.observations.calls.get(value)
    if not isinstance(module, Module) or made is None:
        return ANY
    if module.info is not None:
        return _of_body(case, value, module, scope)
    given, transfer = made[1].get(0, "input"), case.layer(module)
    if transfer is None or given is None:
        return ANY
    call = Operation(case, value, scope, transfer, {"self": given}, (), not made[1].starred)
    return layers.apply(call, module, call.operand())


def _of_body(case: Case, value: ModuleOutput, module: Module, scope: Scope) -> TensorType:
    """The type of a `forward`'s result in this file, for its arguments."""
    inner = case.inside(value, module, scope)
    if inner is None or value.body is None:
        return ANY
    found = case.evaluate(value.body, inner)
    if isinstance(found, TensorType):
        return found
    raise Stop(layers.seen_from(value, found))


def _of_component(case: Case, value: Component, scope: Scope) -> TensorType:
    """One of several results of a module."""
    whole = resolved(value.parents[0])
    key = whole.key_of(value)
    if not isinstance(whole, Tensor) or not isinstance(key, int):
        return ANY
    module = resolved(whole.parents[0])
    layer = case.layer(module)
    if layer is not None and layer.kind in (table.RECURRENT, table.ATTENTION) and key == 0:
        return case.type_of(whole, scope)
    if not isinstance(module, Module) or module.info is None:
        return ANY
    if not isinstance(whole, ModuleOutput) or whole.body is None:
        return ANY
    inner, body = case.inside(whole, module, scope), resolved(whole.body)
    if inner is None or not isinstance(body, Container) or body.grown:
        return ANY
    returned = body.element_at(key)
    if returned is None or any(isinstance(item, Plain) for item in body.parents):
        return ANY
    return case.type_of(returned, inner)
