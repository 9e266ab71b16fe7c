"""Terms that look like the KL divergence from a standard normal, but are not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, numbers, variables, written
from torchlint.pytorch import losses
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.definitions import Definitions
    from torchlint.syntax.python_ast import Site

_ADDING = {"add": 1, "add_": 1, "sub": -1, "sub_": -1}
_SCALING = frozenset({"mul", "mul_"})
_REDUCING = frozenset({"sum", "mean"})
_STEPS = 4
"""Variables between a divergence and the loss."""


class _Part(NamedTuple):
    """An expression, with the sign of the divergence in it, and the sum that adds it to other terms."""

    node: ast.AST
    sign: int
    others: tuple[tuple[ast.expr, int], ...]


class _Term(NamedTuple):
    """One term of a sum: `factor * function(base) ** power`, or a number without a base.

    `exp` has its power inside: `exp(2 * x)` has the power 2.
    """

    factor: float
    function: str = ""
    base: str = ""
    power: float = 1


class NoDivergence(NamedTuple):
    """The sum at `site` has the terms of a divergence with a wrong sign or factor."""

    site: Site
    mean: str
    spread: str
    is_sign: bool


class Subtracted(NamedTuple):
    """The loss at `loss` subtracts the divergence at `site`."""

    site: Site
    loss: Site


class WrongGaussianDivergence(Rule):
    """A KL term of a VAE has a wrong sign or factor.

    ## What it does
    Finds sums such as `1 + log_var - mu**2 - log_var.exp()` with a wrong sign or factor. For the divergence from a
    standard normal distribution, three conditions are true:

    - The logarithm and the variance have opposite signs.
    - The variance and the squared mean have the same sign.
    - The sum has its minimum or maximum where the variance is 1.

    `1 + 2 * log_std - mu**2 - log_std.exp()` breaks the last condition, because it does not square the deviation.

    Also finds a divergence that is subtracted from a PyTorch loss: `F.mse_loss(y, x) + 0.5 * (1 + log_var - ...)`.

    Not reported for sums with other terms, such as those of another prior.

    ## Why is this bad?
    Samples from the prior look bad, although reconstructions look right. With a wrong factor, the term pulls the
    variance of the posterior to a number other than 1. With a wrong sign, it has no minimum: the variance collapses to
    0 or grows without bound.

    ## Example
    ```python
    import torch

    def divergence(mu, log_var):
        return 0.5 * torch.sum(mu.pow(2) + log_var.exp() - 1 + log_var)
    ```

    Use instead:
    ```python
    import torch

    def divergence(mu, log_var):
        return 0.5 * torch.sum(mu.pow(2) + log_var.exp() - 1 - log_var)
    ```

    ## References
    - [Auto-Encoding Variational Bayes, appendix B](https://arxiv.org/abs/1312.6114)
    """

    code = "TL510"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"exp(", b"exp_(", b"log("), (b"pow", b"**", b"square", b"*"))

    def ask(self) -> Iterator[NoDivergence | Subtracted]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.Call):
            parent = self.model.tree.parent(node)
            owner = self.model.tree.parent(parent) if isinstance(parent, ast.Attribute) else None
            is_part = any(item is not None and _is_sum(item) for item in (parent, owner))
            terms = _terms_of(node, self.model.definitions) if _is_sum(node) and not is_part else None
            found = _wrong(terms or [])
            if found is not None:
                yield NoDivergence(python_ast.site_of(node), *found)
            elif (sign := _sign(terms or [])) and isinstance(node, ast.expr):
                loss = _sum_with_loss(node, sign, self.model)
                if loss is not None:
                    yield Subtracted(python_ast.site_of(node), python_ast.site_of(loss))

    def report_Subtracted(self, found: Subtracted) -> None:
        self.report(
            found.site,
            "the loss subtracts this KL divergence: training makes the divergence larger",
            related=[(found.loss, "the sum with the other loss is here")],
            help="the divergence of N(mu, var) from N(0, 1) is `-0.5 * (1 + log(var) - mu**2 - var)`",
        )

    def report_NoDivergence(self, found: NoDivergence) -> None:
        if found.is_sign:
            message = "a sign is wrong in this KL divergence: it has no minimum"
        else:
            message = f"this KL divergence is not smallest at a variance of 1: a factor of `{found.spread}` is wrong"
        self.report(
            found.site,
            message,
            help="the divergence of N(mu, var) from N(0, 1) is `-0.5 * (1 + log(var) - mu**2 - var)`",
        )


def _sign(terms: list[_Term]) -> int:
    """1 for a divergence, -1 for its negative, 0 for other sums."""
    spreads = [item for item in terms if item.function == "exp"]
    is_whole = len(terms) == 4 and len(spreads) == 1 and any(_is_pair(item, spreads[0]) for item in terms)
    return (1 if spreads[0].factor > 0 else -1) if is_whole else 0


def _wrong(terms: list[_Term]) -> tuple[str, str, bool] | None:
    """The mean and the deviation of a wrong divergence, and whether a sign is wrong."""
    constants = [item for item in terms if not item.base]
    rest = [item for item in terms if item.base]
    if len(constants) != 1 or len(rest) != 3 or not constants[0].factor:
        return None
    for log in rest:
        for spread in rest:
            square = next((item for item in rest if item not in (log, spread)), None)
            if square is None or not _is_pair(log, spread) or square.base == spread.base:
                continue
            if square.function or square.power != 2:
                continue
            is_sign = log.factor * spread.factor * spread.power > 0 or square.factor * spread.factor < 0
            is_scaled = abs(log.factor + spread.factor * spread.power) > 1e-6 or square.factor != spread.factor
            return (square.base, spread.base, is_sign) if is_sign or is_scaled else None
    return None


def _is_pair(log: _Term, spread: _Term) -> bool:
    """Whether two terms are a log-deviation and its exponential, or a logarithm and its argument."""
    if log.base != spread.base:
        return False
    if spread.function == "exp":
        return not log.function and log.power == 1
    return log.function == "log" and not spread.function and spread.power in (1, 2)


def _is_sum(node: ast.AST) -> bool:
    """Whether an expression adds or subtracts."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING
    return is_method or (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)))


def _terms_of(node: ast.expr, definitions: Definitions) -> list[_Term] | None:
    """The terms of a sum; None if a term is of another form."""
    terms = [_term(factor, item, definitions) for factor, item in _parts(node, 1)]
    return [item for item in terms if item is not None] if all(terms) else None


def _parts(node: ast.expr, factor: float) -> Iterator[tuple[float, ast.expr]]:
    """The terms of a sum with their literal factors."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and numbers.literal(node) is None:
        yield from _parts(node.operand, -factor)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _parts(node.left, factor)
        yield from _parts(node.right, factor if isinstance(node.op, ast.Add) else -factor)
    elif isinstance(node, ast.BinOp) and (scaled := _scaled(node)) is not None:
        yield from _parts(scaled[1], factor * scaled[0])
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        name, number = node.func.attr, numbers.literal(node.args[0])
        if name in _ADDING and python_ast.dotted(node.func.value) != "torch":
            yield from _parts(node.func.value, factor)
            yield from _parts(node.args[0], factor * _ADDING[name])
        elif name in _SCALING and number is not None:
            yield from _parts(node.func.value, factor * number)
        else:
            yield factor, node
    else:
        yield factor, node


def _scaled(node: ast.BinOp) -> tuple[float, ast.expr] | None:
    """The number and the other factor of a product with a number, or of a quotient by one."""
    left, right = numbers.literal(node.left), numbers.literal(node.right)
    if isinstance(node.op, ast.Mult) and (left is None) != (right is None):
        return (left, node.right) if left is not None else (right or 0, node.left)
    return (1 / right, node.left) if isinstance(node.op, ast.Div) and left is None and right else None


def _term(factor: float, node: ast.expr, definitions: Definitions, steps: int = 3) -> _Term | None:
    number = numbers.literal(node)
    if number is not None:
        return _Term(factor * number)
    base, power = arithmetic.power(node, definitions)
    if isinstance(base, ast.Call) and python_ast.called_name(base) in ("exp", "log") and len(base.args) <= 1:
        return _function(factor, base, power, definitions)
    value = names.only_value(base, definitions) if isinstance(base, ast.Name) else None
    if steps and value is not None:
        inner = _term(factor, value, definitions, steps - 1)
        if inner is not None and inner.base and (power == 1 or inner.function != "log"):
            return inner._replace(power=inner.power * power)
    name = python_ast.dotted(base)
    return _Term(factor, "", name, power) if name else None


def _function(factor: float, call: ast.Call, power: float, definitions: Definitions) -> _Term | None:
    """The term of an exponential or logarithm, with numbers beside the tensor multiplied in."""
    operand, rest = arithmetic.operand(call, definitions)
    if operand is None or rest:
        return None
    if python_ast.called_name(call) == "exp":
        parts = list(_parts(operand, 1))
        name = python_ast.dotted(parts[0][1]) if len(parts) == 1 else ""
        return _Term(factor, "exp", name, parts[0][0] * power) if name else None
    inner = [item for item in _terms_of(operand, definitions) or [] if item.base or abs(item.factor) > 1e-3]
    if power != 1 or len(inner) != 1 or inner[0].function or inner[0].factor != 1:
        return None
    return _Term(factor * inner[0].power, "log", inner[0].base)


def _sum_with_loss(divergence: ast.expr, sign: int, model: Model, steps: int = _STEPS) -> ast.AST | None:
    """The sum with a PyTorch loss of the other sign, so that their optima are opposite."""
    for part in _enclosing(divergence, sign, model):
        for other, its_sign in part.others:
            if its_sign != part.sign and _is_loss(other, model):
                return part.node
        around = model.tree.parent(part.node)
        target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
        if isinstance(target, ast.Name) and isinstance(around, ast.Assign) and steps:
            for read in _reads_before_next(target, around, model):
                found = _sum_with_loss(read, part.sign, model, steps - 1)
                if found is not None:
                    return found
    return None


def _reads_before_next(target: ast.Name, statement: ast.AST, model: Model) -> Iterator[ast.Name]:
    """The reads of a variable after its assignment, up to the next one of the same block."""
    bound = variables.bindings(target.id, target, model.definitions)
    block = model.tree.block(statement)
    later = [item.lineno for item in bound if item.lineno > target.lineno and model.tree.statement(item) in block]
    if any(model.tree.statement(item) not in block for item in bound):
        return
    end = min(later, default=10**9)
    for read in variables.reads(target.id, target, model.definitions):
        if target.lineno < read.lineno <= end:
            yield read


def _enclosing(node: ast.expr, sign: int, model: Model) -> Iterator[_Part]:
    """The expressions around a divergence that are a multiple of it, or a sum with other terms."""
    others: list[tuple[ast.expr, int]] = []
    current: ast.AST = node
    while True:
        yield _Part(current, sign, tuple(others))
        around = model.tree.parent(current)
        if isinstance(around, ast.Attribute) and around.attr in _REDUCING:
            around = model.tree.parent(around)
        elif isinstance(around, ast.Call):
            is_reduced = python_ast.called_name(around) in _REDUCING and around.args[:1] == [current]
            around = around if is_reduced else None
        elif isinstance(around, ast.UnaryOp) and isinstance(around.op, ast.USub):
            sign, others = -sign, [(item, -its) for item, its in others]
        elif isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Add, ast.Sub)):
            is_minus = isinstance(around.op, ast.Sub)
            if around.left is current:
                others.append((around.right, -1 if is_minus else 1))
            else:
                sign, others = (-sign, [(item, -its) for item, its in others]) if is_minus else (sign, others)
                others.append((around.left, 1))
        elif isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Mult, ast.Div)):
            other = around.right if around.left is current else around.left
            if isinstance(around.op, ast.Div) and around.right is current:
                return
            if _is_negative(other, model):
                sign, others = -sign, [(item, -its) for item, its in others]
        else:
            return
        if around is None:
            return
        current = around


def _is_loss(node: ast.expr, model: Model) -> bool:
    """Whether an expression is a loss of PyTorch, perhaps in a variable or with a weight."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        sides = [node.left] if isinstance(node.op, ast.Div) else [node.left, node.right]
        return any(_is_loss(side, model) for side in sides) and not any(_is_negative(side, model) for side in sides)
    value = names.only_value(node, model.definitions) if isinstance(node, ast.Name) else node
    if isinstance(value, ast.BinOp) and value is not node:
        return _is_loss(value, model)
    if not isinstance(value, ast.Call):
        return False
    if python_ast.called_name(value) in _REDUCING and isinstance(value.func, ast.Attribute):
        return _is_loss(value.func.value, model)
    module, _, function = model.definitions.named(value.func).rpartition(".")
    if module == "torch.nn.functional" and function in losses.OPERATORS:
        return True
    made = written.value_of(value.func, model.definitions)
    name = model.definitions.named(made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("torch.nn.") and name.rpartition(".")[2] in losses.FUNCTIONS


def _is_negative(factor: ast.expr, model: Model) -> bool:
    """Whether a factor is negative: its numbers are, and its variables without a visible number are weights."""
    number = numbers.literal(factor)
    if number is not None:
        return number < 0
    if isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub):
        return not _is_negative(factor.operand, model)
    if isinstance(factor, ast.BinOp) and isinstance(factor.op, (ast.Mult, ast.Div)):
        return _is_negative(factor.left, model) != _is_negative(factor.right, model)
    value = names.only_value(factor, model.definitions) if isinstance(factor, ast.Name) else None
    number = numbers.literal(value) if value is not None else None
    return number is not None and number < 0
