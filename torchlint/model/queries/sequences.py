"""Sequence layers: the dimension of their steps, and the one that the program assumes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.program import Program
from torchlint.model.queries import numbers
from torchlint.model.values import Component, Module, ModuleOutput, Plain, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
ENCODERS = frozenset({"TransformerEncoder", "TransformerEncoderLayer"})
_POOLING = frozenset({operators.MEAN, operators.SUM, "max", "amax"})
_PASSING = frozenset({"dropout", "relu", "contiguous", "tanh"})
_KEEPING = frozenset({"Dropout", "ReLU", "LayerNorm"})
_REPEATING = frozenset({"expand", "repeat", "to", "long"})
_MOVING = frozenset("permute transpose movedim swapaxes swapdims size flip roll cat stack narrow mean sum".split())
"""Functions whose numbers are dimensions or counts, not sizes."""
_FIRST_STEP = frozenset({"(:, 0)", ":, 0", "(:, 0, :)", ":, 0, :"})


class Sequences:
    """Answers about the sequence layers of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def samples_first(self, value: Value) -> bool | None:
        """Whether the sequence layer behind a value has samples first; None if there is no such layer."""
        module = resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
        if not isinstance(module, Module) or module.info is not None or len(value.parents) < 2:
            return None
        name = module.name.removeprefix("torch.nn.")
        made = self._program.observations.calls.get(module)
        if name == "TransformerEncoder" and made is not None:
            inner = made[1].get(0, "encoder_layer")
            made = self._program.observations.calls.get(resolved(inner)) if inner is not None else None
        elif name not in RECURRENT | ENCODERS:
            return None
        if made is None or made[1].starred:
            return None
        flag = made[1].keywords.get("batch_first")
        if flag is None:
            is_short = len(made[1].positional) <= (3 if name in RECURRENT else 5)
            return False if is_short else None
        flag = resolved(flag)
        return flag.constant if isinstance(flag, Plain) and isinstance(flag.constant, bool) else None

    def is_bidirectional(self, layer: ModuleOutput) -> bool:
        """Whether a recurrent layer certainly runs in both directions."""
        made = self._program.observations.calls.get(resolved(layer.parents[0]))
        flag = made[1].keywords.get("bidirectional") if made is not None and not made[1].starred else None
        flag = resolved(flag) if flag is not None else None
        return isinstance(flag, Plain) and flag.constant is True

    def steps_of(self, value: Tensor) -> tuple[Site, int] | None:
        """The dimension that an operation treats as steps: it takes the last step, or averages over all."""
        if value.site is None or not value.parents:
            return None
        node = self._program.tree.node(value.site)
        if (value.op == operators.GETITEM or self._is_row(value)) and isinstance(node, ast.Subscript):
            index = _index_of_last(node)
            if index is None and ast.unparse(node.slice) in _FIRST_STEP:
                is_encoder = isinstance(resolved(value.parents[0]), ModuleOutput)
                return (value.site, 1) if is_encoder else None  # the class token
            return (value.site, index) if index is not None else None
        taken = numbers.dimension(value, self._program) if value.op in _POOLING else None
        return (value.site, taken) if taken in (0, 1) else None

    def _is_row(self, value: Value) -> bool:
        """Whether a value is an element of the result of a layer that returns one tensor: `dropout(out)[-1]`."""
        whole = resolved(value.parents[0]) if isinstance(value, Component) else None
        return isinstance(whole, ModuleOutput) and self._is_of(whole, _KEEPING)

    def layer(self, value: Value) -> ModuleOutput | None:
        """The sequence layer whose output, for all steps, a value is."""
        for _ in range(4):
            value = resolved(value)
            if isinstance(value, Component):
                whole = resolved(value.parents[0])
                if isinstance(whole, ModuleOutput) and whole.key_of(value) == 0 and self._is_of(whole, RECURRENT):
                    return whole
                return None
            if isinstance(value, ModuleOutput):
                if self._is_of(value, ENCODERS):
                    return value
                if not self._is_of(value, _KEEPING) or len(value.parents) < 2:
                    return None
                value = value.parents[1]
            elif isinstance(value, Tensor) and value.op in _PASSING:
                value = value.parents[0]
            else:
                return None
        return None

    def _is_of(self, value: Value, names: frozenset[str]) -> bool:
        module = resolved(value.parents[0])
        return isinstance(module, Module) and module.info is None and module.name.rpartition(".")[2] in names

    def is_single(self, given: Value) -> bool:
        """Whether a layer's input has a dimension of size 1, which may be either one."""
        given = resolved(given)
        node = self._program.tree.node(given.site) if given.site is not None else None
        return isinstance(given, Tensor) and node is not None and any(map(_makes_single, python_ast.walk(node)))

    def positions(self, given: Value) -> tuple[Site, int] | None:
        """The places that add positions to a layer's input, with the dimension: `x + pe[:x.size(0)]`."""
        for _ in range(6):
            given = resolved(given)
            if isinstance(given, ModuleOutput):
                is_dropout = (
                    given.body is None and self._is_of(given, frozenset({"Dropout"})) and len(given.parents) > 1
                )
                inner = given.parents[1] if is_dropout else given.body
                if inner is None:
                    return None
                given = inner
            elif isinstance(given, Tensor) and given.op == operators.ADD and given.site is not None:
                found = [self._place(item) for item in given.parents]
                places = [item for item in found if item is not None]
                return (given.site, places[0]) if len(places) == 1 else None
            elif isinstance(given, Tensor) and given.op in _PASSING:
                given = given.parents[0]
            else:
                return None
        return None

    def _place(self, positions: Value) -> int | None:
        """The dimension of x whose size limits the positions: 0 of `pe[:x.size(0)]`, 1 of `pe[:, :x.size(1)]`."""
        positions = resolved(positions)
        node = self._program.tree.node(positions.site) if positions.site is not None else None
        if isinstance(positions, ModuleOutput) and self._is_of(positions, frozenset({"Embedding"})):
            return self._counted(positions.parents[-1])
        if not isinstance(node, ast.Subscript) or not isinstance(positions, Tensor):
            return None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        cuts = [
            (place, item) for place, item in enumerate(parts) if isinstance(item, ast.Slice) and item.upper is not None
        ]
        if len(cuts) != 1 or cuts[0][1].lower is not None:
            return None
        size = cuts[0][1].upper
        is_same = size is not None and _measured(size) == cuts[0][0]
        return cuts[0][0] if is_same and cuts[0][0] in (0, 1) else None

    def _counted(self, numbers_of: Value) -> int | None:
        """The dimension along which code counts positions: 0 for `arange(x.size(0)).unsqueeze(1)`."""
        column = resolved(numbers_of)
        while isinstance(column, Tensor) and column.op in _REPEATING and column.parents:
            column = resolved(column.parents[0])
        if not isinstance(column, Tensor) or column.op != operators.UNSQUEEZE or not column.parents:
            return None
        place = {0: 1, 1: 0, -1: 0}.get(numbers.dimension(column, self._program) or 0)
        made = resolved(column.parents[0])
        call = self._program.tree.node(made.site) if made.site is not None else None
        if not isinstance(call, ast.Call) or python_ast.called_name(call) != "arange" or len(call.args) > 2:
            return None
        return place if call.args and _measured(call.args[-1]) == place else None


def _makes_single(node: ast.AST) -> bool:
    """Whether an expression may make a dimension of size 1: `x.unsqueeze(0)`, `x[None]`, `x.view(1, n, d)`."""
    if isinstance(node, ast.Call) and python_ast.called_name(node) not in _MOVING:
        is_one = any(isinstance(item, ast.Constant) and item.value == 1 for item in _sizes(node))
        return is_one or python_ast.called_name(node).startswith("unsqueeze")
    return isinstance(node, ast.Constant) and node.value is None


def _sizes(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call, also in a tuple or list: `view(1, n)`, `randn((1, n))`."""
    for item in python_ast.arguments(call):
        yield from item.elts if isinstance(item, (ast.Tuple, ast.List)) else (item,)


def _measured(size: ast.expr) -> int | None:
    """The dimension that `x.size(0)` or `x.shape[0]` measures."""
    if isinstance(size, ast.Call) and python_ast.called_name(size) == "size" and len(size.args) == 1:
        number: ast.AST = size.args[0]
    elif isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape":
        number = size.slice
    else:
        return None
    return number.value if isinstance(number, ast.Constant) and isinstance(number.value, int) else None


def _index_of_last(node: ast.Subscript) -> int | None:
    """The dimension whose last element is taken: 1 for `x[:, -1]`, 0 for `x[-1]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for place, item in enumerate(parts[:2]):
        if isinstance(item, ast.UnaryOp) and ast.unparse(item) == "-1":
            return place
        if not isinstance(item, ast.Slice) or item.lower or item.upper or item.step:
            return None
    return None
