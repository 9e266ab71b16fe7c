"""Numbers of a program as sizes: literals, arguments, `x.shape[0]`, and arithmetic on these."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.model.definitions import ClassInfo
from torchlint.model.shapes.case import Case
from torchlint.model.shapes.scope import Scope
from torchlint.model.shapes.sizes import Known, Size, Symbol, product_of
from torchlint.model.values import (
    Attribute,
    Container,
    Instance,
    Parameter,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.syntax.python_ast import dotted

_ARITHMETIC = frozenset({"add", "sub", "mul", "floor_divide", "pow"})


def number(case: Case, value: Value | ast.expr, scope: Scope) -> Known:
    """A value as a size, if it is an integer."""
    if isinstance(value, ast.expr):
        constant = value.value if isinstance(value, ast.Constant) else None
        return Size.of(constant) if type(constant) is int else None
    value = resolved(value)
    if isinstance(value, Plain) and value.is_literal:
        return Size.of(value.constant) if type(value.constant) is int else None
    bound = scope.get(value)
    if bound is not None:
        return number(case, *bound)
    if isinstance(value, Phi):
        chosen = case.chosen(value, scope)
        return number(case, chosen, scope) if chosen is not None else None
    made = case.observations.numbers.get(value)
    if made is not None:
        return _computed(case, *made, scope)
    if isinstance(value, Tensor):
        return _computed(case, value.op, value.parents, None, scope) if value.op in _ARITHMETIC else None
    layer = _attribute_of_layer(case, value, scope)
    if layer is None:
        layer = _setting(case, value, scope)
    return layer if layer is not None else _integer(value, scope)


def sizes(case: Case, values: Sequence[Value], scope: Scope) -> tuple[Known, ...] | None:
    """Sizes as separate arguments, or as one tuple, list or shape; None if their number is not known."""
    if len(values) == 1:
        first = resolved(values[0])
        if isinstance(first, Container):
            elements = written_elements(case, first)
            return tuple(number(case, item, scope) for item in elements) if elements is not None else None
        made = case.observations.numbers.get(first)
        if made is not None and is_shape(made):
            type_ = case.type_of(made[1][0], scope)
            return None if type_.is_open else type_.sizes
        if not isinstance(first, Plain) or (made is None and not first.is_literal):
            return None
    return tuple(number(case, item, scope) for item in values)


def written_elements(case: Case, container: Container) -> tuple[Value, ...] | None:
    """The elements of a literal list or tuple that nothing changes."""
    site = container.site
    is_changed = container.grown or bool(container.known_parts) or bool(container.uses)
    if is_changed or site is None or not site.is_of(ast.List, ast.Tuple):
        return None
    node = case.program.tree.node(site)
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple)) else ()
    is_plain = not any(isinstance(item, ast.Starred) for item in elements)
    return container.parents if is_plain and len(elements) == len(container.parents) else None


def _integer(value: Value, scope: Scope) -> Known:
    """A parameter or attribute as a symbol; elements of a list and loop counters differ each time."""
    is_annotated = isinstance(value, Plain) and bool(value.label) and value.site is not None
    if isinstance(value, Unknown):
        is_same = isinstance(value, (Parameter, Attribute))
    else:
        is_same = is_annotated and value.site is not None and value.site.is_of(ast.Name)
    if not is_same:
        return None
    return Size.symbol(Symbol((value, scope), None, not value.loops))


def _computed(case: Case, how: str, operands: tuple[Value, ...], key: object, scope: Scope) -> Known:
    if how in _ARITHMETIC and len(operands) == 2:
        left, right = (number(case, item, scope) for item in operands)
        return _arithmetic(how, left, right) if left is not None and right is not None else None
    if how == "getitem" and type(key) is int:
        first: int | None = 0
        made = case.observations.numbers.get(operands[0])
        if made is not None and made[0] == how:
            made = case.observations.numbers.get(made[1][0])
            first = _first_of_slice(case, operands[0]) if key >= 0 else None
        if made is None or first is None or not is_shape(made) or first < 0 <= first + key:
            return None
        return _size(case, made[1][0], first + key, scope)
    if how == "size" and len(operands) == 2:
        dimension = number(case, operands[1], scope)
        index = dimension.number if dimension is not None else None
        return _size(case, operands[0], index, scope) if index is not None else None
    if how == "len" and isinstance(resolved(operands[0]), Tensor):
        return _size(case, operands[0], 0, scope)
    if how in ("numel", "nelement"):
        type_ = case.type_of(operands[0], scope)
        return product_of(type_.sizes) if not type_.is_open else None
    return number(case, operands[0], scope) if how == "int" and operands else None


def _size(case: Case, tensor: Value, dimension: int, scope: Scope) -> Known:
    """The size of a dimension; a symbol if it is not known."""
    type_ = case.type_of(tensor, scope)
    known = type_.size(dimension)
    if known is not None or (not type_.is_open and not -len(type_.sizes) <= dimension < len(type_.sizes)):
        return known
    dimension = dimension if type_.is_open else dimension % len(type_.sizes)
    return case.dimension(case.source(tensor, scope), dimension)


def _first_of_slice(case: Case, shape: Value) -> int | None:
    """The first dimension of `x.shape[2:]`; None for another part of a shape."""
    node = case.program.tree.node(shape.site) if shape.site is not None else None
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice) or node.slice.step is not None:
        return None
    lower = node.slice.lower
    if isinstance(lower, ast.UnaryOp) and isinstance(lower.op, ast.USub) and isinstance(lower.operand, ast.Constant):
        return -lower.operand.value if type(lower.operand.value) is int else None
    if lower is None:
        return 0
    return lower.value if isinstance(lower, ast.Constant) and type(lower.value) is int else None


def _attribute_of_layer(case: Case, value: Value, scope: Scope) -> Known:
    """`self.fc.in_features`: an argument of the layer's constructor."""
    if not isinstance(value, Attribute):
        return None
    layer = case.layer(resolved(value.parents[0])) if value.parents else None
    if layer is None or value.label not in layer.names:
        return None
    given = case.made_with(resolved(value.parents[0]), layer).get(value.label)
    return number(case, given, scope) if given is not None else None


def _setting(case: Case, value: Value, scope: Scope) -> Known:
    """`config.num_classes`: a field of a dataclass of the program, as the constructor got it or by its default."""
    if not isinstance(value, Attribute) or not value.parents:
        return None
    owner = resolved(value.parents[0])
    bound = scope.get(owner)
    owner, outer = (
        (resolved(bound[0]), bound[1]) if bound is not None and isinstance(bound[0], Value) else (owner, scope)
    )
    if not isinstance(owner, Instance) or not _is_dataclass(owner.info):
        return None
    made, fields = case.arguments_of(owner), [node for node in owner.info.node.body if isinstance(node, ast.AnnAssign)]
    names = [node.target.id for node in fields if isinstance(node.target, ast.Name)]
    if made is None or made.starred or value.label not in names or _is_set(case, value.label):
        return None
    given = made.get(names.index(value.label), value.label) or fields[names.index(value.label)].value
    return number(case, given, outer) if given is not None else None


def _is_dataclass(info: ClassInfo) -> bool:
    """Whether a class has the fields of its body and no other constructor."""
    decorators = [node.func if isinstance(node, ast.Call) else node for node in info.node.decorator_list]
    is_marked = any(dotted(node).rpartition(".")[2] == "dataclass" for node in decorators)
    own = {node.name for node in info.node.body if isinstance(node, ast.FunctionDef)}
    return is_marked and not info.node.bases and own.isdisjoint({"__init__", "__post_init__", "__getattribute__"})


def _is_set(case: Case, name: str) -> bool:
    """Whether the file sets an attribute with this name: `config.num_classes = 3`."""
    nodes = case.program.tree.of_type(ast.Attribute)
    return any(node.attr == name and isinstance(node.ctx, ast.Store) for node in nodes)


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


def is_shape(made: tuple[str, tuple[Value, ...], object]) -> bool:
    """Whether a value is `x.shape` or `x.size()`."""
    return made[0] == "shape" or (made[0] == "size" and len(made[1]) == 1)
