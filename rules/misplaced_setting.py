"""Settings of optimizers and schedules passed to the wrong parameter."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, variables
from torchlint.pytorch.settings import ORDERS, ROLES, Role, role_of_name
from torchlint.syntax import python_ast

_NUMBERS = frozenset({"int", "float"})
_ROUNDING = _NUMBERS | {"round", "math.ceil", "math.floor"}
_RATIO = LazyPattern(r"(?i)ratio|fraction|proportion|frac\b|percent|pct")
_WITH_LINEAR_STAGES = frozenset({"LinearLR", "PolynomialLR"})
"""Schedules of a warm-up, or of a stage of similar length."""


class Misplaced(NamedTuple):
    """The parameter `parameter` of the call at `site` receives `written`, whose name means something else."""

    site: python_ast.Site
    parameter: str
    written: str
    role: Role | None
    """The meaning of the argument; None: a fraction, where a number of steps is needed."""
    is_sure: bool


class MisplacedSetting(Rule):
    """An optimizer or schedule receives a setting that belongs elsewhere.

    ## What it does
    Compares the parameters of PyTorch's optimizers and schedules, and of transformers schedules, with the names of the
    arguments. Finds, for example, `StepLR(optimizer, step_size=args.lr)`, or `SGD(params, lr, weight_decay)`, whose
    third parameter is the momentum. torchlint recognizes the usual names of learning rates, weight decays, momenta,
    factors, milestones, warm-ups and schedule lengths. Also finds calls to any function that swap the warm-up and the
    schedule length, by their names or because the length is a fraction of the warm-up.

    The finding has low confidence if a cosine schedule is as long as the warm-up.

    ## Why is this bad?
    The model trains, but not as the configuration says. Most of these settings are plain numbers, so there is no error.
    The schedule decays in every step or never, or the weight decay becomes a momentum.

    ## Example
    ```python
    import torch

    def make(model, args):
        optimizer = torch.optim.SGD(model.parameters(), args.lr, args.weight_decay)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    ```

    Use instead:
    ```python
    import torch

    def make(model, args):
        optimizer = torch.optim.SGD(model.parameters(), args.lr, weight_decay=args.weight_decay)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    ```

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
    """

    code = "TL331"
    category = Category.SUSPICIOUS
    triggers = ((b"optim", b"schedule_with_warmup"),)

    def ask(self) -> Iterator[Misplaced]:
        """One finding for each call."""
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            order = ORDERS.get(self.model.definitions.named(call.func))
            if order is not None:
                yield from itertools.islice(self._misplaced(call, order), 1)
            elif len(call.args) + len(call.keywords) > 1:
                yield from itertools.islice(self._swapped(call), 1)

    def _misplaced(self, call: ast.Call, order: tuple[str, ...]) -> Iterator[Misplaced]:
        yield from self._share_as_length([(ROLES[name], name, value) for name, value in self._given(call, order)])
        for parameter, value in self._given(call, order):
            role, wanted = self._role(value), ROLES[parameter]
            if (role, wanted) == (Role.LENGTH, Role.MILESTONES):
                continue  # `config["epochs"]` is a list of epochs: PyTorch refuses a number there
            if self._is_share(value) and wanted is Role.LENGTH:
                yield Misplaced(python_ast.site_of(value), parameter, ast.unparse(value), None, True)
            elif role is not None and role is not wanted and not _is_stage(python_ast.called_name(call), role, wanted):
                is_sure = (role, wanted) != (Role.WARM_UP, Role.LENGTH) or parameter == "num_training_steps"
                yield Misplaced(python_ast.site_of(value), parameter, ast.unparse(value), role, is_sure)

    def _swapped(self, call: ast.Call) -> Iterator[Misplaced]:
        """A length and a warm-up in each other's place, in a call to any function with parameters for both."""
        arguments = callees.arguments(call, callees.callee(call, self.model.definitions))
        yield from self._share_as_length([(role_of_name(name), name, value) for name, value in arguments.items()])
        if not {Role.WARM_UP, Role.LENGTH} <= set(map(self._role, python_ast.arguments(call))):
            return
        given = [(role_of_name(name), self._role(value), name, value) for name, value in arguments.items()]
        for_warm_up = [item for item in given if item[:2] == (Role.WARM_UP, Role.LENGTH)]
        for_length = [item for item in given if item[:2] == (Role.LENGTH, Role.WARM_UP)]
        if len(for_warm_up) == len(for_length) == 1:
            _, role, name, value = for_warm_up[0]
            yield Misplaced(python_ast.site_of(value), name, ast.unparse(value), role, True)

    def _share_as_length(self, given: list[tuple[Role | None, str, ast.expr]]) -> Iterator[Misplaced]:
        """A warm-up over `steps` beside a length of `int(0.1 * steps)`."""
        warm_up = next((value for role, _, value in given if role is Role.WARM_UP), None)
        length = next(((name, value) for role, name, value in given if role is Role.LENGTH), None)
        if warm_up is not None and length is not None:
            name, value = length
            if ast.unparse(warm_up) in self._wholes(value):
                yield Misplaced(python_ast.site_of(value), name, ast.unparse(value), Role.WARM_UP, True)

    def _wholes(self, node: ast.expr) -> Iterator[str]:
        """The text of the whole, if an expression is a fraction of it: `steps` of `int(0.1 * steps)`."""
        if isinstance(node, ast.Name):
            node = variables.value_before(node, self.model.definitions) or node
        while isinstance(node, ast.Call) and python_ast.dotted(node.func) in _ROUNDING and len(node.args) == 1:
            node = node.args[0]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for share, whole in ((node.left, node.right), (node.right, node.left)):
                if self._is_share(share) or _RATIO.search(python_ast.dotted(share)):
                    yield ast.unparse(whole)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
            if isinstance(node.right, ast.Constant):
                yield ast.unparse(node.left)

    def _given(self, call: ast.Call, order: tuple[str, ...]) -> Iterator[tuple[str, ast.expr]]:
        """The arguments whose parameters have a single meaning."""
        placed = [] if any(isinstance(item, ast.Starred) for item in call.args) else call.args
        pairs = [*zip(order, placed, strict=False), *((item.arg or "", item.value) for item in call.keywords)]
        yield from ((parameter, value) for parameter, value in pairs if parameter in ROLES)

    def _role(self, node: ast.expr) -> Role | None:
        """The meaning of a variable, an attribute or a configuration entry, by its name."""
        while isinstance(node, ast.Call) and python_ast.dotted(node.func) in _NUMBERS and len(node.args) == 1:
            node = node.args[0]
        if isinstance(node, ast.Subscript):
            key = node.slice
            return role_of_name(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
        return role_of_name(python_ast.dotted(node).rpartition(".")[2])

    def _is_share(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1

    def report_Misplaced(self, found: Misplaced) -> None:
        what = found.role.value if found.role is not None else "less than one step"
        self.report(
            found.site,
            f"`{found.parameter}` receives `{found.written}`, which is {what}",
            help=f"pass the right setting as the keyword `{found.parameter}`",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )


def _is_stage(name: str, role: Role, wanted: Role) -> bool:
    """Whether a schedule may last as long as a warm-up, or warm up for the whole training."""
    if {role, wanted} != {Role.WARM_UP, Role.LENGTH}:
        return False
    return name.rpartition(".")[2] in _WITH_LINEAR_STAGES or wanted is Role.WARM_UP
