"""Padding of batches: the `pad_sequence` call behind a tensor whose steps are in their places."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from torchlint.model.definitions import FunctionInfo, defaults_of
from torchlint.model.events import Mutate
from torchlint.model.program import Program
from torchlint.model.utilities import DataLoader
from torchlint.model.values import (
    Component,
    Container,
    Element,
    Function,
    Instance,
    Iteration,
    Module,
    ModuleOutput,
    Parameter,
    Phi,
    Plain,
    Tensor,
    Value,
    inputs_of,
    is_none,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch import shapes as table
from torchlint.pytorch.binding import Parameters, bind
from torchlint.syntax.python_ast import Site, called_name, dotted, is_literal, site_of, walk

PAD = "pad_sequence"
_PARAMETERS = Parameters(*"sequences batch_first padding_value padding_side".split())
_MOST_STEPS = 80
_MOST_CALLS = 6
STEPWISE = frozenset(
    "to float double half bfloat16 long int cuda cpu contiguous clone detach type relu gelu elu silu leaky_relu "
    "tanh sigmoid dropout layer_norm linear embedding add sub mul div".split()
)
"""Operators that leave samples and steps in the first two dimensions."""
REORDERED = STEPWISE | frozenset("getitem view reshape flatten transpose permute squeeze t".split())
"""The same, and operators that drop or move steps."""
_LAYERS = frozenset("linear layer_norm embedding".split()) | {table.SAME}
Calls = tuple[Mapping[str, Value], ...]
"""The arguments for the parameters of the current modules, by call."""


class Padding(NamedTuple):
    """A call that pads sequences at their end."""

    site: Site
    batch_first: bool
    number: ast.expr | None
    """The expression for the padding; None: 0."""


class PaddingSearch:
    """One query, with a limited number of steps."""

    def __init__(self, program: Program, through: frozenset[str] = STEPWISE) -> None:
        self._program = program
        self._through = through
        self._steps = 0

    def of(self, value: Value, calls: Calls = ()) -> Padding | None:
        """The padding of a value; None if none is known."""
        self._steps += 1
        value = resolved(value)
        if self._steps > _MOST_STEPS:
            return None
        if isinstance(value, Parameter) and calls and value.label in calls[-1]:
            return self.of(calls[-1][value.label], calls[:-1])
        if isinstance(value, Phi):
            found = {self.of(item, calls) for item in inputs_of(value)}
            return found.pop() if len(found) == 1 else None
        if value in self._changed or (value.label and value.label in self._stored):
            return None
        if isinstance(value, (Element, Iteration)):
            return self.of(value.parents[0], calls) if self._is_sliced(value) else self._of_batch(value)
        if not isinstance(value, Tensor) or not value.parents:
            return None
        if value.op == PAD:
            return self._made_at(self._program.tree.node(value.site)) if value.site is not None else None
        if isinstance(value, ModuleOutput):
            return self._of_output(value, calls)
        if isinstance(value, Component):
            return self._of_recurrent(value, calls)
        if value.op == operators.GETITEM and not self._is_sliced(value):
            return None
        operands = value.parents if value.op in (operators.ADD, operators.MUL) else value.parents[:1]
        found_ = (self.of(item, calls) for item in operands if value.op in self._through)
        return next((item for item in found_ if item is not None), None)

    # -- modules ------------------------------------------------------------------------------------------

    def _of_output(self, value: ModuleOutput, calls: Calls) -> Padding | None:
        module = resolved(value.parents[0])
        if value.body is not None:
            return self.of(value.body, (*calls, given_in(self._program, value))) if len(calls) < _MOST_CALLS else None
        if len(value.parents) < 2 or not isinstance(module, Module) or not self._leaves_steps(module, value, calls, 0):
            return None
        return self.of(value.parents[1], calls)

    def _leaves_steps(self, module: Value, call: Tensor, calls: Calls, depth: int) -> bool:
        """Whether a layer leaves samples and steps in place."""
        module = resolved(module)
        if not isinstance(module, Module) or module.info is not None or depth > 3:
            return False
        name = module.name.removeprefix("torch.nn.")
        if name == "Sequential":
            parts = [resolved(item) for item in module.parents]
            parts = [item for part in parts for item in (part.elements() if isinstance(part, Container) else [part])]
            return bool(parts) and all(self._leaves_steps(item, call, calls, depth + 1) for item in parts)
        layer = table.LAYERS.get(name)
        return layer is not None and layer.kind in {*_LAYERS, table.ENCODER, table.ENCODER_LAYER}

    def _of_recurrent(self, value: Component, calls: Calls) -> Padding | None:
        """The padding of a recurrent layer's outputs for all steps, if its dimension order matches the padding."""
        whole = resolved(value.parents[0])
        module = resolved(whole.parents[0]) if isinstance(whole, ModuleOutput) else None
        layer = table.LAYERS.get(module.name.removeprefix("torch.nn.")) if isinstance(module, Module) else None
        if layer is None or layer.kind != table.RECURRENT or len(whole.parents) < 2 or whole.key_of(value) != 0:
            return None
        padding = self.of(whole.parents[1], calls)
        made = self._program.observations.calls.get(module) if module is not None else None
        flag = made[1].keywords.get("batch_first") if made is not None else None
        is_first = flag is not None and isinstance(given := resolved(flag), Plain) and given.constant is True
        return padding if padding is not None and padding.batch_first == is_first else None

    @cached_property
    def _changed(self) -> set[Value]:
        """Values changed in place: `labels[labels == 0] = -100` may replace the padding."""
        return {resolved(event.target) for trace in self._program.traces for event in trace.of(Mutate)}

    @cached_property
    def _stored(self) -> set[str]:
        """The names of containers into which the program stores elements."""
        nodes: list[ast.Subscript] = [*self._program.nodes(ast.Subscript)]
        return {dotted(node.value) for node in nodes if isinstance(node.ctx, ast.Store)}

    def _is_sliced(self, value: Value) -> bool:
        """`x[:, 1:]`, through which the search continues."""
        node = self._program.tree.node(value.site) if value.site is not None else None
        index = node.slice if isinstance(node, ast.Subscript) else None
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        return operators.GETITEM in self._through and all(isinstance(item, ast.Slice) for item in parts)

    # -- loaders ------------------------------------------------------------------------------------------

    def _of_batch(self, value: Value) -> Padding | None:
        """The padding that a loader's `collate_fn` creates in a part of the batch, or in the whole batch."""
        batch = resolved(value.parents[0]) if isinstance(value, Element) and value.parents else value
        loader = resolved(batch.parents[0]) if isinstance(batch, Iteration) and batch.parents else None
        if not isinstance(loader, DataLoader) or _is(loader.part("batch_sampler")):
            return None
        collate = loader.part("collate_fn")
        function = resolved(collate) if collate is not None else None
        info = function.info if isinstance(function, Function) else None
        if isinstance(function, Instance):
            info = function.info.method("__call__")
        key = batch.key_of(value) if batch is not value else None
        return self._of_function(info, key) if info is not None else None

    def _of_function(self, info: FunctionInfo, key: object) -> Padding | None:
        if isinstance(info.node, ast.Lambda):
            return self._written(info.node.body, key)
        trace = next((item for item in self._program.traces if item.root is info), None)
        parts = [_part(resolved(item), key) for item in (trace.frame.returns if trace is not None else ())]
        found = {self.of(part) if part is not None else None for part in parts}
        return found.pop() if len(found) == 1 else None

    def _written(self, node: ast.expr, key: object) -> Padding | None:
        if key is not None:
            parts = {f"[{index}]": item for index, item in enumerate(node.elts)} if isinstance(node, ast.Tuple) else {}
            if isinstance(node, ast.Dict):
                parts = {f"[{item.value!r}]": part for item, part in zip(node.keys, node.values, strict=True)
                         if isinstance(item, ast.Constant)}  # fmt: skip
            part = parts.get(str(key))
            return self._made_at(part) if part is not None else None
        return self._made_at(node)

    def _made_at(self, node: ast.AST | None) -> Padding | None:
        """The padding of a `pad_sequence` call, if that surely pads at the end."""
        if not isinstance(node, ast.Call) or called_name(node) != PAD or any(_turns(item) for item in walk(node)):
            return None
        keywords = {item.arg: item.value for item in node.keywords if item.arg is not None}
        if len(keywords) < len(node.keywords) or any(isinstance(item, ast.Starred) for item in node.args):
            return None
        given = bind(_PARAMETERS, node.args, keywords)
        side, first = given.get("padding_side"), given.get("batch_first")
        if side is not None or (first is not None and not isinstance(first, ast.Constant)):
            return None
        return Padding(site_of(node), first is not None and is_literal(first, True), given.get("padding_value"))


def given_in(program: Program, call: ModuleOutput) -> Mapping[str, Value]:
    """The arguments of a call of the program's module and of its constructor, by parameter."""
    module = resolved(call.parents[0])
    init = module.info.method("__init__") if isinstance(module, Module) and module.info is not None else None
    made = program.observations.calls.get(module)
    if init is None or made is None or made[1].starred:
        return call.given
    found: dict[str, Value] = {}
    for name, default in defaults_of(init.node).items():
        if isinstance(default, ast.Constant):
            found[name] = Plain(default, default.value)
        elif isinstance(default, ast.UnaryOp) and isinstance(default.operand, ast.Constant):
            found[name] = Plain(default, ast.literal_eval(default))
    for index, name in enumerate(init.parameters[1:]):
        given = made[1].get(index, name)
        if given is not None:
            found[name] = given
    return {**found, **call.given}


def _part(whole: Value, key: object) -> Value | None:
    """The part of a function's result that a loop unpacks under a key: `[0]`, `['x']`."""
    if key is None or not isinstance(whole, Container):
        return whole if key is None else None
    for index, item in enumerate(whole.parents if not whole.is_open else ()):
        if key == f"[{index}]":
            return item
    return next((item for name, item in whole.entries.items() if key == f"[{name!r}]"), None)


def _is(value: Value | None) -> bool:
    return value is not None and not is_none(value)


def _turns(node: ast.AST) -> bool:
    """Whether sequences are reversed before padding: `flip`, `[::-1]`."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("flip", "flipud", "fliplr")
    return isinstance(node, ast.Slice) and node.step is not None
