"""Attention: weights from a softmax, and the scores it is applied to."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.program import Program
from torchlint.model.queries import numbers
from torchlint.model.values import Module, ModuleOutput, Phi, Plain, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import written_alike

if TYPE_CHECKING:
    from torchlint.model.model import Model

_KEEPING = frozenset("dropout masked_fill clone contiguous float to type_as half".split()) | {
    operators.MUL,
    operators.DIV,
    operators.ADD,
}
_PASSING = frozenset({"dropout", "contiguous", "clone", "float", "to"})
_TRANSPOSING = frozenset({"transpose"})
_RESHAPING = frozenset({"view", "reshape"})
_AVERAGING = frozenset("mean sum unsqueeze squeeze transpose t T mT permute expand".split())
_EINSUM = "einsum"
_EQUATION = LazyPattern(r"^([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]+)$")
_MOST = 10


def softmax_of(weights: Value, views: list[Tensor] | None = None) -> Tensor | None:
    """The softmax behind attention weights, through operators that keep their dimensions.

    With a list of `views`, also through views, which are added to the list.
    """
    for _ in range(_MOST):
        weights = resolved(weights)
        if not isinstance(weights, Tensor) or not weights.parents:
            return None
        if weights.op == operators.SOFTMAX or is_layer(weights):
            return weights
        if is_layer(weights, "Dropout"):
            weights = weights.parents[1]
        elif weights.op in _PASSING or (weights.op in _RESHAPING and views is not None):
            if weights.op in _RESHAPING and views is not None:
                views.append(weights)
            weights = weights.parents[0]
        else:
            return None
    return None


def scores_of(softmax: Tensor) -> Value:
    """The input of a softmax."""
    return softmax.parents[-1 if is_layer(softmax) else 0]


def keep_last(views: list[Tensor], softmax: Tensor, program: Program) -> bool:
    """Whether views of weights keep the last dimension, because each view and that of the scores name its size."""
    scores = resolved(scores_of(softmax))
    every = [*views, scores] if isinstance(scores, Tensor) else []
    last = [sizes(view, program)[-1:] for view in every]
    names = [item for one in last for item in one if isinstance(item, ast.Name)]
    return len(names) == len(every) > 0 and all(written_alike(item, names[0]) for item in names)


def sizes(view: Tensor, program: Program) -> list[ast.expr]:
    """The sizes in `x.view(a, b)` or `x.reshape((a, b))`; an empty list if the code does not write each of them."""
    node = program.tree.node(view.site) if view.op in _RESHAPING and view.site is not None else None
    given = node.args if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else []
    is_one = len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List))
    given = given[0].elts if is_one and isinstance(given[0], (ast.Tuple, ast.List)) else given
    is_written = len(given) > 1 and not any(isinstance(item, ast.Starred) for item in given)
    return given if is_written else []


def are_weights(value: Value) -> bool:
    """Whether a value holds attention weights, or averages of them, in any order of dimensions."""
    for _ in range(_MOST):
        if softmax_of(value, []) is not None:
            return True
        value = resolved(value)
        if not isinstance(value, Tensor) or value.op not in _AVERAGING or not value.parents:
            return False
        value = value.parents[0]
    return False


def is_layer(value: Tensor, name: str = "Softmax") -> bool:
    """Whether a value is the output of a layer of PyTorch."""
    module = resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
    is_one = isinstance(module, Module) and module.info is None and module.name.rpartition(".")[2] == name
    return is_one and len(value.parents) == 2


def dimension(softmax: Tensor, program: Program) -> int | None:
    """The dimension of a softmax, if the program names it."""
    if not isinstance(softmax, ModuleOutput):
        return numbers.dimension(softmax, program)
    made = program.observations.calls.get(resolved(softmax.parents[0]))
    given = made[1].get(0, "dim") if made is not None else None
    number = resolved(given) if given is not None else None
    constant = number.constant if isinstance(number, Plain) and number.is_literal else None
    return constant if type(constant) is int else None


def equation(product: Tensor, program: Program) -> tuple[str, str, str] | None:
    """The letters of the two factors and of the result of an `einsum`, if they are written without an ellipsis."""
    node = program.tree.node(product.site) if product.op == _EINSUM and product.site is not None else None
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    text = given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""
    match = _EQUATION.search(text.replace(" ", ""))
    return (match[1], match[2], match[3]) if match else None


def rank(scores: Value, model: Model) -> int | None:
    """The number of dimensions of scores from a batched matrix product; None if they may be something else."""
    for _ in range(_MOST):
        scores = resolved(scores)
        if isinstance(scores, Phi) and not scores.is_loop:  # masked, if there is a mask
            ranks = {rank(item, model) for item in scores.parents}
            return ranks.pop() if len(ranks) == 1 else None
        if not isinstance(scores, Tensor) or not scores.parents:
            return None
        if scores.op == operators.BMM:
            return 3
        if scores.op == _EINSUM:
            first, second, result = equation(scores, model.program) or ("", "", "")
            return len(result) if {*first} & {*second} & {*result} else None
        if scores.op == operators.MATMUL:
            known = {item.rank for item in model.shapes.types_of(scores)}
            is_known = len(known) == 1 and None not in known
            return known.pop() if is_known else _transposed_rank(scores, model.program)
        if scores.op in _RESHAPING:
            return len(sizes(scores, model.program)) or None if rank(scores.parents[0], model) is not None else None
        if scores.op not in _KEEPING or isinstance(scores, ModuleOutput):
            return None
        scores = scores.parents[0]
    return None


def _transposed_rank(scores: Tensor, program: Program) -> int | None:
    """3 if a product transposes the dimensions 1 and 2 of its second factor."""
    factor = resolved(scores.parents[1]) if len(scores.parents) > 1 else None
    known = program.observations.calls.get(factor) if factor is not None else None
    if known is None or not isinstance(factor, Tensor) or factor.op not in _TRANSPOSING:
        return None
    given = {item.constant for item in map(resolved, known[1].positional) if isinstance(item, Plain)}
    return 3 if given == {1, 2} else None
