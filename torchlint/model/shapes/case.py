"""One case: the types of values, where of each value with several meanings one is chosen."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from torchlint.model.shapes.scope import MAX_DEPTH, ROOT, Scope
from torchlint.model.shapes.sizes import Known, Size, Symbol, product_of
from torchlint.model.shapes.tensor_type import ANY, Choice, Evaluated, Misfit, TensorType
from torchlint.model.values import (
    Container,
    Module,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    is_none,
    meanings,
    resolved,
)
from torchlint.pytorch import shapes as table

if TYPE_CHECKING:
    from torchlint.model.evaluate.arguments import Arguments
    from torchlint.model.program import Program

MAX_NESTED = 40
"""Values that are made of one another and looked at in one go; those looked at before are known by then."""
Place = tuple[Value, Scope]


class Stop(Exception):
    """An operation has no result of its own: it raises, or first something else has to be chosen."""

    def __init__(self, result: Misfit | Choice) -> None:
        super().__init__()
        self.result = result


@dataclass(eq=False)
class Operation:
    """An operation whose result is asked for: its arguments by parameter, in a case."""

    case: Case
    value: Tensor
    scope: Scope
    transfer: table.Transfer
    arguments: dict[str, Value]
    rest: Sequence[Value]
    """The arguments of the parameter that takes several."""
    is_complete: bool
    """Whether all arguments are known."""

    def misfit(self, reason: str, what: str = "shape") -> NoReturn:
        assert self.value.site is not None
        raise Stop(Misfit(what, self.value.site, reason, self.value.order))

    def get(self, name: str) -> Value | None:
        return self.arguments.get(name)

    def is_of_tensor(self, type_: TensorType) -> bool:
        """Whether an operand of this type is surely a tensor: arrays have methods of the same names."""
        made = self.case.observations.calls.get(self.value)
        return type_.dtype is not None or (made is not None and made[2] is None)

    def type_of(self, value: Value) -> TensorType:
        return self.case.type_of(value, self.scope)

    def operand(self, name: str = "self") -> TensorType:
        value = self.get(name)
        return self.type_of(value) if value is not None else ANY

    def number(self, name: str, default: int | None = None) -> Known:
        value = self.get(name)
        if value is None:
            return Size.of(default) if default is not None and self.is_complete else None
        return self.case.number(value, self.scope)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An argument that is a literal number, or its default."""
        size = self.number(name, default)
        return size.number if size is not None else None

    def is_given(self, name: str) -> bool:
        """Whether an argument is there, or may be."""
        value = self.get(name)
        return not self.is_complete or (value is not None and not is_none(value))

    def flag(self, name: str) -> bool | None:
        """A literal that is False by default."""
        value = self.get(name)
        if value is None:
            return False if self.is_complete else None
        value = resolved(value)
        return value.constant if isinstance(value, Plain) and isinstance(value.constant, bool) else None

    def dimension(self, name: str, rank: int | None, default: int | None = None) -> int | None:
        """A literal dimension, counted from the front where the rank is known; raises where there is none."""
        given = self.integer(name, default)
        if given is None or rank is None:
            return given
        if not -max(rank, 1) <= given < max(rank, 1):
            self.misfit(f"goes over dimension {given}, but is given {_dimensions(rank)}")
        return given % max(rank, 1)

    def with_rank(self, name: str, ranks: Sequence[int], type_: TensorType) -> TensorType:
        """An operand that has to have one of these numbers of dimensions."""
        value = self.get(name)
        if type_.rank is not None:
            if type_.rank not in ranks:
                wanted = " or ".join(map(str, ranks))
                self.misfit(f"takes an input of {wanted} dimensions, but is given {_dimensions(type_.rank)}")
            return type_
        return self.case.choose_rank(value, self.scope, ranks, type_) if value is not None else type_


class Case:
    """Answers under these choices; where one more is needed, that is the answer."""

    def __init__(self, program: Program, choices: dict[Hashable, Hashable], scopes: dict[Hashable, Scope]) -> None:
        self.program = program
        self.observations = program.observations
        self._choices = choices
        self._scopes = scopes
        self._known: dict[Place, Evaluated] = {}
        self._nested = 0

    def evaluate(self, value: Value, scope: Scope = ROOT) -> Evaluated:
        """The type of a value, why it cannot be computed, or what to choose first."""
        value = resolved(value)
        place = (value, scope)
        known = self._known.get(place)
        if known is not None:
            return known
        if self._nested >= MAX_NESTED:
            return ANY
        self._known[place] = ANY  # what is made of itself is not known
        self._nested += 1
        try:
            found: Evaluated = self._evaluate(value, scope)
        except Stop as stop:
            found = stop.result
        self._nested -= 1
        self._known[place] = found
        return found

    def type_of(self, value: Value, scope: Scope) -> TensorType:
        """The type of a value; raises `Stop` where it has none."""
        found = self.evaluate(value, scope)
        if isinstance(found, TensorType):
            return found
        raise Stop(found)

    def _evaluate(self, value: Value, scope: Scope) -> TensorType:
        chosen = self._choices.get((value, scope))
        if isinstance(chosen, TensorType):
            return chosen
        if isinstance(value, Phi):
            return self.type_of(self._chosen(value, scope), scope) if _is_branch(value) else ANY
        if isinstance(value, Unknown):
            return self._of_unknown(value, scope)
        if isinstance(value, Tensor):
            from torchlint.model.shapes.operations import type_of

            return type_of(self, value, scope)
        return ANY

    def _of_unknown(self, value: Unknown, scope: Scope) -> TensorType:
        """Of a value that is not known otherwise, `x.float()` is the value itself: its element type is not sure."""
        type_ = self._unconverted(value, scope)
        return type_.with_dtype(None) if value.has_use(*_CONVERTING) else type_

    def _unconverted(self, value: Unknown, scope: Scope) -> TensorType:
        bound = scope.get(value)
        if bound is not None and isinstance(bound[0], Value):
            return self.type_of(bound[0], bound[1])
        owner = resolved(value.parents[0]) if value.origin == "attribute" and value.parents else None
        if isinstance(owner, Tensor) and value.label in ("values", "indices"):
            from torchlint.model.shapes.operations import part_of_extremum

            return part_of_extremum(self, owner, int(value.label == "indices"), scope) or ANY
        return ANY

    def _chosen(self, phi: Phi, scope: Scope) -> Value:
        """The value that a Phi is in this case."""
        inputs = tuple(meanings(phi))
        chosen = self._choices.get((phi, scope))
        if isinstance(chosen, Value):
            return chosen
        raise Stop(Choice((phi, scope), inputs))

    def source(self, value: Value, scope: Scope) -> Place:
        """The value, and its scope, whose shape a value surely has: the input of an activation."""
        while True:
            value = resolved(value)
            bound = scope.get(value)
            chosen = self._choices.get((value, scope))
            if bound is not None and isinstance(bound[0], Value):
                value, scope = bound[0], bound[1]
            elif isinstance(value, Phi) and isinstance(chosen, Value):
                value = chosen
            elif isinstance(value, Tensor) and (source := self._same_shape(value)) is not None:
                value = source
            else:
                return value, scope

    def _same_shape(self, value: Tensor) -> Value | None:
        transfer = table.OPERATORS.get(value.op)
        if transfer is not None and transfer.kind in ("same", "same_at") and value.parents:
            return value.parents[0]
        layer = self.layer(resolved(value.parents[0])) if value.op == "module" else None
        return value.parents[1] if layer is not None and layer.kind == "same" and len(value.parents) > 1 else None

    def layer(self, module: Value) -> table.Transfer | None:
        """What is known of a layer of PyTorch."""
        if not isinstance(module, Module) or module.info is not None:
            return None
        return table.LAYERS.get(module.name.removeprefix("torch.nn."))

    def choose_rank(self, value: Value, scope: Scope, ranks: Sequence[int], type_: TensorType) -> TensorType:
        """The type of a value that has one of these numbers of dimensions: each is a case."""
        place = self.source(value, scope)
        if place in self._choices or not isinstance(self.evaluate(*place), TensorType):
            return type_
        options = tuple(self._with_rank(place, rank, type_) for rank in ranks if rank >= len(type_.sizes))
        if not options:
            return type_
        raise Stop(Choice(place, options))

    def _with_rank(self, place: Place, rank: int, type_: TensorType) -> TensorType:
        unknown = range(rank - len(type_.sizes))
        leading = tuple(self._dimension(place, index) for index in unknown)
        return replace(type_, sizes=(*leading, *type_.sizes), is_open=False)

    def _dimension(self, place: Place, index: int) -> Size:
        return Size.symbol(Symbol(place, index, not place[0].loops))

    # -- numbers ------------------------------------------------------------------------------------

    def number(self, value: Value | ast.expr, scope: Scope) -> Known:
        """A value as a size, where it is an integer."""
        if isinstance(value, ast.expr):
            constant = value.value if isinstance(value, ast.Constant) else None
            return Size.of(constant) if type(constant) is int else None
        value = resolved(value)
        if isinstance(value, Plain) and value.is_literal:
            return Size.of(value.constant) if type(value.constant) is int else None
        bound = scope.get(value)
        if bound is not None:
            return self.number(*bound)
        if isinstance(value, Phi):
            return self.number(self._chosen(value, scope), scope) if _is_branch(value) else None
        made = self.observations.numbers.get(value)
        if made is not None:
            return self._computed(*made, scope)
        if isinstance(value, Tensor):
            return self._computed(value.op, value.parents, None, scope) if value.op in _ARITHMETIC else None
        layer = self._attribute_of_layer(value, scope)
        return layer if layer is not None else self._integer(value, scope)

    def _integer(self, value: Value, scope: Scope) -> Known:
        """A parameter or attribute as a symbol; what a list holds, or a loop counts, is another each time."""
        is_annotated = isinstance(value, Plain) and bool(value.label) and value.site is not None
        if isinstance(value, Unknown):
            is_same = value.origin in ("parameter", "attribute")
        else:
            is_same = is_annotated and value.site is not None and value.site.kind == "Name"
        if not is_same:
            return None
        return Size.symbol(Symbol((value, scope), None, not value.loops))

    def _computed(self, how: str, operands: tuple[Value, ...], key: object, scope: Scope) -> Known:
        if how in _ARITHMETIC and len(operands) == 2:
            left, right = (self.number(item, scope) for item in operands)
            return _arithmetic(how, left, right) if left is not None and right is not None else None
        if how == "getitem" and type(key) is int:
            made = self.observations.numbers.get(operands[0])
            return self._size(made[1][0], key, scope) if made is not None and _is_shape(made) else None
        if how == "size" and len(operands) == 2:
            dimension = self.number(operands[1], scope)
            index = dimension.number if dimension is not None else None
            return self._size(operands[0], index, scope) if index is not None else None
        if how == "len" and isinstance(resolved(operands[0]), Tensor):
            return self._size(operands[0], 0, scope)
        if how in ("numel", "nelement"):
            type_ = self.type_of(operands[0], scope)
            return product_of(type_.sizes) if not type_.is_open else None
        return self.number(operands[0], scope) if how == "int" and operands else None

    def _size(self, tensor: Value, dimension: int, scope: Scope) -> Known:
        type_ = self.type_of(tensor, scope)
        known = type_.size(dimension)
        if known is not None or not type_.is_open:
            return known
        return self._dimension(self.source(tensor, scope), dimension)

    def _attribute_of_layer(self, value: Value, scope: Scope) -> Known:
        """`self.fc.in_features`: what the layer was made with."""
        if not isinstance(value, Unknown) or value.origin != "attribute":
            return None
        layer = self.layer(resolved(value.parents[0])) if value.parents else None
        if layer is None or value.label not in layer.names:
            return None
        from torchlint.model.shapes.operations import made_with

        return self.number_of(made_with(self, resolved(value.parents[0]), layer).get(value.label), scope)

    def number_of(self, value: Value | None, scope: Scope) -> Known:
        return self.number(value, scope) if value is not None else None

    def sizes(self, values: Sequence[Value], scope: Scope) -> tuple[Known, ...] | None:
        """Sizes that are given one by one, or as one tuple, list or shape; None: it is not known how many."""
        if len(values) == 1:
            first = resolved(values[0])
            if isinstance(first, Container):
                elements = self.written_elements(first)
                return tuple(self.number(item, scope) for item in elements) if elements is not None else None
            made = self.observations.numbers.get(first)
            if made is not None and _is_shape(made):
                type_ = self.type_of(made[1][0], scope)
                return None if type_.is_open else type_.sizes
            if not isinstance(first, Plain) or (made is None and not first.is_literal):
                return None
        return tuple(self.number(item, scope) for item in values)

    def written_elements(self, container: Container) -> tuple[Value, ...] | None:
        """The elements of a list or tuple that is written out, and that nothing changes."""
        site = container.site
        is_changed = container.grown or bool(container.known_parts) or bool(container.uses)
        if is_changed or site is None or site.kind not in ("List", "Tuple"):
            return None
        node = self.program.tree.node(site)
        elements = node.elts if isinstance(node, (ast.List, ast.Tuple)) else ()
        is_plain = not any(isinstance(item, ast.Starred) for item in elements)
        return container.parents if is_plain and len(elements) == len(container.parents) else None

    def arguments_of(self, value: Value) -> Arguments | None:
        """The arguments that made a value, unless some are handed over by a star: it is not sure how many these are."""
        made = self.observations.calls.get(value)
        node = self.program.tree.node(value.site) if made is not None and value.site is not None else None
        starred = isinstance(node, ast.Call) and any(isinstance(item, ast.Starred) for item in node.args)
        return None if made is None or starred else made[1]

    # -- modules of the program -----------------------------------------------------------------------

    def inside(self, call: Tensor, module: Module, scope: Scope) -> Scope | None:
        """The scope in which the `forward` of a module of this file runs at a call."""
        forward = module.info.method("forward") if module.info is not None else None
        made = self.arguments_of(call)
        if scope.depth >= MAX_DEPTH or forward is None or made is None or module.info is None:
            return None
        if module.info.definitions is not self.program.definitions:
            return None
        known = self._scopes.get((call, module, scope))
        if known is None:
            known = self._scopes[call, module, scope] = Scope(scope.depth + 1)
            known.bind(forward, made, scope)
            self._bind_initializer(known, module, scope)
        return known

    def _bind_initializer(self, inner: Scope, module: Module, scope: Scope) -> None:
        assert module.info is not None
        init, made = module.info.method("__init__"), self.arguments_of(module)
        if init is not None and made is not None:
            inner.bind(init, made, scope)
        elif module not in self.observations.calls:  # `self`: what its own parameters are is what they are around it
            inner.parameters.update({**scope.parameters, **inner.parameters})


_CONVERTING = ("to", "type", "float", "double", "half", "bfloat16")
_ARITHMETIC = frozenset({"add", "sub", "mul", "floor_divide", "pow"})


def _arithmetic(how: str, left: Size, right: Size) -> Known:
    if how == "add":
        return left + right
    if how == "sub":
        return left - right
    if how == "mul":
        return left * right
    first, second = left.number, right.number
    if how == "pow":
        is_small = first is not None and second is not None and 0 <= second <= 32 and abs(first) <= 2**16
        return Size.of(first**second) if is_small and first is not None and second is not None else None
    if first is not None and second:
        return Size.of(first // second)
    return left.divided_by(right) if second != 0 else None


def _is_shape(made: tuple[str, tuple[Value, ...], object]) -> bool:
    """Whether it is `x.shape` or `x.size()`."""
    return made[0] == "shape" or (made[0] == "size" and len(made[1]) == 1)


def _is_branch(phi: Phi) -> bool:
    """Whether a Phi is one of the values that meet behind a branch: not from iteration to iteration, nor of a list."""
    return not phi.is_loop and phi.source is None


def _dimensions(rank: int) -> str:
    return "1 dimension" if rank == 1 else f"{rank} dimensions"
