"""The numbers in a tensor: probabilities, their logarithms, logits, masks, and whether one of them may be 0."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import Compute
from torchlint.model.module_values import is_as_made
from torchlint.model.program import Program
from torchlint.model.relations._similarities import is_similarity, may_be_share, may_be_similarity
from torchlint.model.relations._uses import Uses
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.values import (
    Answer,
    Component,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_MOST_STEPS = 40
"""Maximum number of operators between a value and its domain."""
_RESHAPING = frozenset(
    "view reshape squeeze unsqueeze flatten transpose permute contiguous expand double float half to cuda cpu".split()
)
_MASKS = frozenset("compare bitwise eq ne gt lt ge le isnan isinf isfinite logical_not logical_and logical_or".split())
_SQUARES = frozenset("square abs relu norm var std mse_loss l1_loss cdist".split())
_RECTIFYING = frozenset({"relu"})
_POSITIVE = frozenset({"exp", "softplus"})
_FROM_MINUS_ONE = frozenset({"erf", "tanh"})
_OF_MODULES = {
    "Softmax": "softmax", "Softmax2d": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid",
    "LogSigmoid": "logsigmoid", "ReLU": "relu", "Softplus": "softplus", "Linear": "linear", "Conv1d": "linear",
    "Conv2d": "linear", "Conv3d": "linear", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
}  # fmt: skip
_FILLS = frozenset({operators.MASKED_FILL, operators.MASKED_FILL_, operators.WHERE})
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "linear", "einsum"})
_REPEATING = frozenset({"expand", "repeat"})
_ANSWERED = frozenset({"log", "kl_div", "cross_entropy", "nll_loss"})
"""Operators, besides roots, for whose operand the relation gives an answer."""
_EPSILON = LazyPattern(r"(?i)(?:^|[._])eps(?:ilon)?$|tiny\b")
_MINUS_INFINITY = LazyPattern(
    r"""(?i)^\(?(?:-\s*(?:float\(\s*["']\+?inf(?:inity)?["']\s*\)|(?:torch\.|math\.|np\.|numpy\.)?inf)"""
    r"""|float\(\s*["']-inf(?:inity)?["']\s*\))\)?$"""
)
_PLUS_INFINITY = LazyPattern(
    r"""(?i)^\(?(?:float\(\s*["']\+?inf(?:inity)?["']\s*\)|(?:torch\.|math\.|np\.|numpy\.)inf"""
    r"""|-\s*float\(\s*["']-inf(?:inity)?["']\s*\))\)?$"""
)
_SMALL = 1e-3


class Kind(Enum):
    """A kind of numbers; the value is its name in words."""

    MASK = "a mask"
    CLASSES = "class indices"
    PROBABILITIES = "probabilities"
    LOGARITHMS = "logarithms of probabilities"
    LOGITS = "logits"
    NON_NEGATIVE = "non-negative numbers"
    NUMBERS = "numbers"


class Domain(NamedTuple):
    """The numbers of a tensor. `zero` says whether one of them is 0: YES if the source shows it.

    `masked` is the place that sets logits to minus infinity: their probabilities are 0, the logarithms -inf.
    """

    kind: Kind
    zero: Answer
    masked: Site | None = None


class Domains:
    """Answers about the numbers in tensors, each computed once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._uses = Uses(program)
        self._known: dict[Value, Domain | None] = {}
        self._steps = 0

    def of(self, value: Value) -> Domain | None:
        """The numbers of a value; None if not known."""
        value = resolved(value)
        if value in self._known:
            return self._known[value]
        if self._steps > _MOST_STEPS:
            return None
        self._known[value] = None  # a value of a loop may depend on itself
        self._steps += 1
        self._known[value] = self._of_phi(value) if isinstance(value, Phi) else self._of_tensor(value)
        self._steps -= 1
        return self._known[value]

    def under_root(self, root: Tensor) -> Domain | None:
        """The numbers under a root: a product of a matrix and squares holds sums of squares, which are not negative."""
        operand = resolved(root.parents[0])
        known = self.of(operand)
        if known is not None or not isinstance(operand, Tensor) or operand.op not in _PRODUCTS:
            return known
        factors = [self.of(item) for item in operand.parents]
        is_of_squares = any(
            item is not None and item.kind is Kind.NON_NEGATIVE and item.zero is not Answer.NO for item in factors
        )
        return Domain(Kind.NON_NEGATIVE, Answer.UNKNOWN) if is_of_squares else None

    def is_rectified(self, value: Value) -> bool:
        """Whether a value is the result of a ReLU, which is exactly 0 for each unit that is off."""
        value = resolved(value)
        while isinstance(value, Tensor) and value.op in _RESHAPING and value.parents:
            value = resolved(value.parents[0])
        if not isinstance(value, ModuleOutput):
            return isinstance(value, Tensor) and value.op in _RECTIFYING
        if value.body is not None:
            return self.is_rectified(value.body)
        layer = _last_layer(resolved(value.parents[0]) if value.parents else None)
        return layer is not None and layer.name.removeprefix("torch.nn.") == "ReLU"

    def is_similarity(self, scores: Value) -> bool:
        """Whether scores are products of normalized vectors: no probability from them is 0 at a usual temperature."""
        return is_similarity(scores)

    def may_be_similarity(self, scores: Value) -> bool:
        """Whether unknown scores may be such products, because a temperature divides them, or quotients of sums."""
        return may_be_similarity(scores) or may_be_share(scores)

    def users(self, value: Value) -> list[Tensor]:
        """The tensors computed from a value by one operator."""
        return self._uses.of.get(value, [])

    def is_detached(self, value: Value) -> bool:
        """Whether no gradient reaches a value: code detaches, reads or drops all that it computes from it."""
        return self._uses.is_detached(value)

    def is_epsilon(self, value: Value) -> bool:
        """Whether a number is small and positive, or a variable has the name of an epsilon."""
        value = resolved(value)
        if isinstance(value, Plain) and value.is_literal:
            return isinstance(value.constant, float) and 0 < value.constant <= _SMALL
        return bool(_EPSILON.search(value.label)) or bool(_EPSILON.search(self._code(value)))

    def lower_bound(self, clamp: Tensor) -> Value | None:
        """The lower bound of a `clamp` call."""
        known = self._program.observations.calls.get(clamp)
        if known is None:
            return None
        _, arguments, receiver = known
        bound = arguments.get(0 if receiver is not None else 1, "min")
        return resolved(bound) if bound is not None else None

    def is_minus_infinity(self, value: Value) -> bool:
        """Whether a number is minus infinity."""
        return bool(_MINUS_INFINITY.search(self._code(resolved(value))))

    def is_plus_infinity(self, value: Value) -> bool:
        """Whether a number is plus infinity, also as `-float("-inf")`."""
        return bool(_PLUS_INFINITY.search(self._code(resolved(value))))

    def _code(self, value: Value) -> str:
        if value.site is None or isinstance(value, ModuleOutput):
            return ""
        return self._program.tree.code(value.site)

    # -- values -----------------------------------------------------------------------------------------

    def _of_phi(self, value: Phi) -> Domain | None:
        found = {self.of(item) for item in inputs_of(value)}
        if len(found) != 1:
            return None
        return found.pop()

    def _of_tensor(self, value: Value) -> Domain | None:
        if not isinstance(value, Tensor) or isinstance(value, Component):
            return None
        operation, operand = value.op, resolved(value.parents[0]) if value.parents else None
        if isinstance(value, ModuleOutput):
            if value.body is not None:
                return self.of(value.body)
            module = operand
            module = _last_layer(module)
            if module is None:
                return None
            operation = _OF_MODULES.get(module.name.removeprefix("torch.nn."), "")
            operand = resolved(value.parents[1]) if len(value.parents) > 1 else None
        if operand is None:
            return None
        return self._of_operation(operation, operand, value)

    def _of_operation(self, operation: str, operand: Value, value: Tensor) -> Domain | None:
        unknown = Answer.UNKNOWN
        if operation in _RESHAPING:
            return self.of(operand)
        if operation == operators.GETITEM:
            domain = self.of(operand)
            return (
                Domain(domain.kind, Answer.NO if domain.zero is Answer.NO else unknown) if domain is not None else None
            )
        if operation in ("softmax", "sigmoid"):
            masked = self._mask_of(operand)
            return Domain(Kind.PROBABILITIES, Answer.YES if masked is not None else unknown, masked)
        if operation in ("log_softmax", "logsigmoid"):
            return Domain(Kind.LOGARITHMS, unknown, self._mask_of(operand))
        if operation in _MASKS:
            return Domain(Kind.MASK, unknown)
        if operation in ("argmax", "argmin", "long", "int"):
            return Domain(Kind.CLASSES, unknown) if operation.startswith("arg") else self.of(operand)
        if operation == "linear":
            return Domain(Kind.LOGITS, unknown)
        if operation in _SQUARES or (operation == operators.POW and _is_even(value)) or _is_square(value):
            inner = self.of(operand)
            keeps = operation not in ("norm", "var", "std", "mse_loss", "l1_loss", "cdist")
            return Domain(Kind.NON_NEGATIVE, inner.zero if inner is not None and keeps else unknown)
        if operation == "log" or operation == "exp":
            inner = self.of(operand)
            if inner is not None and inner.kind in (Kind.PROBABILITIES, Kind.LOGARITHMS):
                kind = Kind.LOGARITHMS if operation == "log" else Kind.PROBABILITIES
                is_zero = operation == "exp" and inner.masked is not None
                return Domain(kind, Answer.YES if is_zero else unknown, inner.masked)
            if operation == "log":
                return None
        if operation in _POSITIVE:
            return Domain(Kind.NON_NEGATIVE, Answer.NO)
        return self._of_arithmetic(operation, operand, value)

    def _of_arithmetic(self, operation: str, operand: Value, value: Tensor) -> Domain | None:
        other = resolved(value.parents[1]) if len(value.parents) > 1 else operand
        if operation in (operators.ADD, operators.MUL) and isinstance(operand, Plain):
            operand, other = other, operand
        domain = self.of(operand)
        if operation == operators.SUB and len(value.parents) > 1 and self._is_of_itself(value):
            return Domain(Kind.NUMBERS, Answer.YES)
        if operation == operators.ADD and len(value.parents) > 1 and _is_shifted(value):
            return Domain(Kind.NON_NEGATIVE, Answer.UNKNOWN)
        if operation in ("clamp", "clamp_min"):
            bound = self.lower_bound(value)
            if bound is None:
                return domain
            number = bound.constant if isinstance(bound, Plain) and bound.is_literal else None
            is_positive = self.is_epsilon(bound) or (isinstance(number, (int, float)) and number > 0)
            kind = domain.kind if domain is not None else Kind.NON_NEGATIVE
            if is_positive or number == 0:
                return Domain(kind, Answer.NO if is_positive else Answer.UNKNOWN)
            return None
        if domain is None:
            return None
        if operation in ("sum", "mean"):
            keeps_zero = domain.zero is Answer.NO or (domain.zero is Answer.YES and len(value.parents) > 1)
            if domain.kind in (Kind.NON_NEGATIVE, Kind.PROBABILITIES, Kind.MASK) and domain.masked is None:
                return Domain(Kind.NON_NEGATIVE, domain.zero if keeps_zero else Answer.UNKNOWN)
            return None
        if operation == "sqrt":
            return Domain(Kind.NON_NEGATIVE, domain.zero) if domain.kind is Kind.NON_NEGATIVE else None
        if operation in (operators.ADD, operators.MUL, operators.DIV) and len(value.parents) > 1:
            return self._of_two(operation, domain, other)
        return None

    def _of_two(self, operation: str, domain: Domain, other: Value) -> Domain | None:
        """The sum, product or quotient of known numbers and another operand."""
        if domain.kind not in (Kind.NON_NEGATIVE, Kind.PROBABILITIES):
            return None
        number = other.constant if isinstance(other, Plain) and other.is_literal else None
        is_positive = self.is_epsilon(other) or (isinstance(number, (int, float)) and number > 0)
        second = self.of(other)
        if operation == operators.ADD:
            if is_positive or (second is not None and second.zero is Answer.NO):
                return Domain(Kind.NON_NEGATIVE, Answer.NO)
        elif is_positive:
            return Domain(Kind.NON_NEGATIVE, domain.zero)
        if second is None or second.kind not in (Kind.NON_NEGATIVE, Kind.PROBABILITIES, Kind.MASK):
            return None
        return Domain(Kind.NON_NEGATIVE, Answer.NO if domain.zero is Answer.NO else Answer.UNKNOWN)

    def _mask_of(self, scores: Value) -> Site | None:
        """The place that sets scores to minus infinity under a mask."""
        for _ in range(_MOST_STEPS):
            scores = resolved(scores)
            if not isinstance(scores, Tensor) or isinstance(scores, ModuleOutput) or len(scores.parents) < 1:
                return None
            if scores.op in _FILLS:
                fills = any(self.is_minus_infinity(item) for item in scores.parents[1:])
                return scores.site if fills else None
            if scores.op not in _RESHAPING | {operators.DIV}:
                return None
            scores = scores.parents[0]
        return None

    def _is_of_itself(self, difference: Tensor) -> bool:
        """Whether a difference pairs each row of a tensor with each row of the same tensor: `x[:, None] - x[None]`."""
        first, second = (self._widened(item) for item in difference.parents[:2])
        if first is None or second is None or first[0] is not second[0]:
            return False
        return first[1] != second[1]

    def _widened(self, value: Value) -> tuple[Value, str] | None:
        """The tensor to which a value adds a dimension, and the index that does it."""
        value = resolved(value)
        while isinstance(value, Tensor) and value.op in _REPEATING and value.parents:
            value = resolved(value.parents[0])
        if not isinstance(value, Tensor) or not value.parents or value.site is None:
            return None
        whole, node = resolved(value.parents[0]), self._program.tree.node(value.site)
        if value.op == operators.UNSQUEEZE and isinstance(node, ast.Call):
            return whole, ast.unparse(node.args[-1] if node.args else node)
        if isinstance(node, ast.Subscript) and _only_widens(node.slice):
            return whole, ast.unparse(node.slice)
        return None

    # -- in words ---------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """The numbers under roots and logarithms, and those passed to a loss."""
        for trace in self._program.traces:
            for event in trace.of(Compute):
                asked = is_root(event.value) or event.value.op in _ANSWERED
                if asked and event.value.parents:
                    operand = resolved(event.value.parents[0])
                    domain = self.of(operand)
                    name = f"`{operand.label}`" if operand.label else "the operand"
                    unknown = f"unknown: the code does not limit the range of {name}"
                    yield Text(event.site, self._said(domain) if domain is not None else unknown)

    def _said(self, domain: Domain) -> str:
        zero = {Answer.YES: "; at least one is 0", Answer.NO: "; none is 0", Answer.UNKNOWN: ""}
        return f"takes {domain.kind.value}" + zero[domain.zero]


def _last_layer(module: Value | None) -> Module | None:
    """A layer of PyTorch, or the last one of an `nn.Sequential`."""
    for _ in range(_MOST_STEPS):
        if not isinstance(module, Module) or module.info is not None or not is_as_made(module):
            return None
        if module.name.rpartition(".")[2] != "Sequential" or not module.parents:
            return module
        module = resolved(module.parents[-1])
    return None


def is_root(value: Tensor) -> bool:
    """Whether a value is a square root: `x.sqrt()`, `x ** 0.5`."""
    if value.op == operators.SQRT:
        return True
    power = resolved(value.parents[1]) if value.op == operators.POW and len(value.parents) > 1 else None
    return isinstance(power, Plain) and power.constant == 0.5


def _is_shifted(value: Tensor) -> bool:
    """Whether a value is `1 + erf(x)` or `1 + tanh(x)`, which rounds to 0 for small `x`."""
    first, second = map(resolved, value.parents[:2])
    number, bounded = (first, second) if isinstance(first, Plain) else (second, first)
    is_one = isinstance(number, Plain) and number.is_literal and number.constant in (1, 1.0)
    return is_one and isinstance(bounded, Tensor) and bounded.op in _FROM_MINUS_ONE


def _is_even(power: Tensor) -> bool:
    exponent = resolved(power.parents[1]) if len(power.parents) > 1 else None
    return isinstance(exponent, Plain) and exponent.constant in (2, 4, 2.0, 4.0)


def _is_square(value: Tensor) -> bool:
    """Whether a value is multiplied by itself."""
    return value.op == operators.MUL and len(value.parents) > 1 and _same(*value.parents[:2])


def _same(first: Value, second: Value) -> bool:
    return resolved(first) is resolved(second)


def _only_widens(index: ast.expr) -> bool:
    """Whether an index keeps all elements and only adds dimensions: `[:, None]`."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    whole = (isinstance(item, ast.Slice) and not (item.lower or item.upper or item.step) for item in items)
    constants = (isinstance(item, ast.Constant) and item.value in (None, ...) for item in items)
    return all(map(operator.or_, whole, constants))
