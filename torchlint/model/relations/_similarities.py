"""Similarities: products of normalized vectors, which a temperature may divide. Each lies between -1/T and 1/T."""

from __future__ import annotations

from torchlint.model.module_values import returned_parts
from torchlint.model.values import Component, Container, ModuleOutput, Phi, Plain, Tensor, Value, inputs_of, resolved
from torchlint.pytorch import naming, operators

_MOST_STEPS = 40
_LARGEST = 40
"""Similarities up to this number differ by less than 87, so that no softmax of them is 0 in float32."""
_SAME = frozenset(
    "view reshape squeeze unsqueeze flatten t T mT transpose permute contiguous getitem detach clone to cuda".split()
)
_JOINING = frozenset({"cat", "concat", "stack"})
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "einsum", "linear"})


def is_similarity(scores: Value, steps: int = _MOST_STEPS, scale: float = 1.0) -> bool:
    """Whether scores are similarities, divided by no number that makes them large."""
    several = _several(scores)
    if several is not None:
        return bool(several) and steps > 0 and all(is_similarity(item, steps - 1, scale) for item in several)
    scores = resolved(scores)
    if not isinstance(scores, Tensor) or not scores.parents or steps == 0:
        return False
    if scores.op == operators.COSINE_SIMILARITY:
        return scale <= _LARGEST
    if scores.op in _PRODUCTS:
        factors = _factors(scores)
        return scale <= _LARGEST and len(factors) == 2 and all(_is_normalized(item, steps) for item in factors)
    if scores.op in (operators.DIV, operators.DIV_, operators.MUL) and len(scores.parents) == 2:
        return is_similarity(scores.parents[0], steps - 1, scale * _factor(scores))
    return False


def may_be_similarity(scores: Value, steps: int = _MOST_STEPS) -> bool:
    """Whether scores may be similarities: a quotient of a product of vectors that may be normalized, or of unknown
    scores by a temperature.
    """
    several = _several(scores)
    if several is not None:
        return steps > 0 and any(may_be_similarity(item, steps - 1) for item in several)
    scores = resolved(scores)
    if not isinstance(scores, Tensor) or scores.op not in (operators.DIV, operators.DIV_) or len(scores.parents) < 2:
        return False
    is_temperature = naming.TEMPERATURE.search(resolved(scores.parents[1]).label) is not None
    return _may_be_product(scores.parents[0], steps, is_temperature=is_temperature)


def may_be_share(scores: Value, steps: int = 8) -> bool:
    """Whether scores come from a quotient of two sums, such as an agreement or an overlap, which is bounded."""
    scores = resolved(scores)
    if not isinstance(scores, Tensor) or len(scores.parents) != 2 or steps == 0:
        return False
    first, second = map(resolved, scores.parents)
    if scores.op in (operators.DIV, operators.DIV_):
        return _is_sum(first) and (_is_sum(second) or isinstance(second, Plain))
    if scores.op not in (operators.MUL, operators.ADD, operators.SUB, operators.RSUB):
        return False
    return any(isinstance(item, Tensor) and may_be_share(item, steps - 1) for item in (first, second))


def _is_sum(value: Value) -> bool:
    return isinstance(value, Tensor) and value.op in (operators.SUM, operators.MEAN)


def _may_be_product(scores: Value, steps: int, *, is_temperature: bool) -> bool:
    """Whether scores are products of vectors that may be normalized, or unknown scores that a temperature divides."""
    several = _several(scores)
    if several is not None:
        return steps > 0 and any(_may_be_product(item, steps - 1, is_temperature=is_temperature) for item in several)
    scores = resolved(scores)
    if not isinstance(scores, Tensor) or isinstance(scores, Component):
        return is_temperature
    factors = _factors(scores)
    return scores.op in _PRODUCTS and len(factors) == 2 and all(map(_may_be_normalized, factors))


def _may_be_normalized(vectors: Value) -> bool:
    """Whether vectors are normalized, or unknown: the attribute that holds a queue."""
    vectors = resolved(vectors)
    while isinstance(vectors, Tensor) and vectors.op in _SAME and not isinstance(vectors, Component):
        vectors = resolved(vectors.parents[0])
    return not isinstance(vectors, Tensor) or isinstance(vectors, Component) or _is_normalized(vectors, _MOST_STEPS)


def _several(value: Value) -> list[Value] | None:
    """The values that one consists of, or the value before a change of its shape; None for another value."""
    value = resolved(value)
    if isinstance(value, Phi):
        return list(inputs_of(value))
    if isinstance(value, Container):
        return value.elements() if not value.is_open else []
    if isinstance(value, ModuleOutput):
        return [value.body] if value.body is not None else None
    if isinstance(value, Component):
        return returned_parts(value) or None
    if not isinstance(value, Tensor):
        return None
    return list(value.parents[:1]) if value.op in _SAME | _JOINING else None


def _factors(product: Tensor) -> list[Value]:
    """The tensors that a product multiplies; `einsum` may receive them in a list."""
    given = [resolved(item) for item in product.parents]
    lists = [item.elements() if isinstance(item, Container) else [item] for item in given]
    return [item for items in lists for item in items if not isinstance(resolved(item), Plain)]


def _factor(product: Tensor) -> float:
    """The number by which an operator multiplies scores; 1 for a number that is not known."""
    number = resolved(product.parents[1])
    if not isinstance(number, Plain) or not isinstance(number.constant, (int, float)) or not number.constant:
        return 1.0
    return abs(number.constant if product.op == operators.MUL else 1 / number.constant)


def _is_normalized(vectors: Value, steps: int) -> bool:
    """Whether vectors have length 1: `F.normalize(x)`, `x / x.norm(dim=1, keepdim=True)`."""
    several = _several(vectors)
    if several is not None:
        return bool(several) and steps > 0 and all(_is_normalized(item, steps - 1) for item in several)
    vectors = resolved(vectors)
    if not isinstance(vectors, Tensor) or len(vectors.parents) < 1:
        return False
    if vectors.op in (operators.DIV, operators.DIV_) and len(vectors.parents) == 2:
        length = resolved(vectors.parents[1])
        whole = resolved(length.parents[0]) if isinstance(length, Tensor) and length.parents else None
        return isinstance(length, Tensor) and length.op == operators.NORM and whole is resolved(vectors.parents[0])
    return vectors.op == operators.NORMALIZE
