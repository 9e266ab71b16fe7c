"""Hidden states of recurrent layers, of size (layers, batch, features)."""

from __future__ import annotations

from torchlint.model.shapes.case import Case
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.scope import Scope
from torchlint.model.shapes.sizes import Size
from torchlint.model.shapes.tensor_type import ANY, TensorType
from torchlint.model.values import Component, Module, ModuleOutput, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.pytorch.shapes import RECURRENT


def layer_of_state(value: Value) -> ModuleOutput | None:
    """The output of the recurrent layer to which a state belongs: the second result, a pair for an LSTM."""
    value, parts = resolved(value), 0
    while isinstance(value, Tensor) and value.op in (operators.CONTIGUOUS, operators.GETITEM) and value.parents:
        parts += value.op == operators.GETITEM
        value = resolved(value.parents[0])
    while isinstance(value, Component):
        whole = resolved(value.parents[0])
        key = whole.key_of(value)
        if isinstance(whole, ModuleOutput):
            module = resolved(whole.parents[0])
            wanted = int(isinstance(module, Module) and module.name.rpartition(".")[2] == "LSTM")
            return whole if key == 1 and parts == wanted else None
        value, parts = whole, parts + 1
    return None


def state_type(case: Case, value: Tensor, scope: Scope) -> TensorType | None:
    """The type of the last state of a recurrent layer; None for any other value."""
    output = layer_of_state(value)
    layer = resolved(output.parents[0]) if output is not None else None
    transfer = case.layer(layer) if layer is not None else None
    if output is None or layer is None or transfer is None or transfer.kind != RECURRENT or len(output.parents) < 2:
        return None
    made = case.made_with(layer, transfer)
    call = Operation(case, output, scope, transfer, made, (), is_complete=bool(made))
    given, count = call.type_of(output.parents[1]), call.integer("num_layers", 1)
    batch_first, both = call.flag("batch_first"), call.flag("bidirectional")
    if given.rank != 3 or count is None or batch_first is None or both is None:
        return ANY
    features = call.number("hidden_size") if call.get("proj_size") is None else None
    batch = given.size(0 if batch_first else 1)
    return TensorType((Size.of(2 * count if both else count), batch, features), dtype="float")
