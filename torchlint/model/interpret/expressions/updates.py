"""In-place changes as written, `x += y`, `x.add_(y)`, `x[0] = y`, and parameter updates by hand."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments
from torchlint.model.events import Step
from torchlint.model.interpret.expressions.subscripts import Subscripts
from torchlint.model.interpret.expressions.sums import Sums, changed_first
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import key_of
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.lineage import ancestry
from torchlint.model.values import Container, Tensor, Value, resolved
from torchlint.pytorch import api, operators
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import dotted, names_read, site_of, walk


class Updates(Part):
    """Changes the value of an expression in place."""

    def __init__(self, machine: Machine, tensors: Tensors, subscripts: Subscripts, sums: Sums) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.subscripts = subscripts
        self.sums = sums

    def by_method(self, node: ast.Call, changed: Value, name: str, arguments: Arguments) -> Value:
        """`x.add_(y)`: perhaps a parameter update by hand, or an accumulating sum."""
        assert isinstance(node.func, ast.Attribute)
        if _goes_down(node, node.func):
            self.step_if_update(node, node.func.value, arguments.all(), in_place=True)
        if name in api.ACCUMULATING_IN_PLACE and arguments.positional:
            self.sums.change(node, node.func.value, changed, arguments.positional[0])
        return self.mutate(node, node.func.value, changed, name, arguments.all())

    def mutate(
        self,
        node: ast.AST,
        target: ast.expr,
        old: Value,
        how: str,
        by: tuple[Value, ...],
    ) -> Value:
        """Record an in-place change of `old`, and bind the target to its new value."""
        result = self.tensors.mutate(node, old, how, by)
        target = changed_first(target)
        if isinstance(target, (ast.Name, ast.Attribute)):
            if isinstance(target, ast.Attribute) and target.attr in ("data", "grad"):
                return result
            self.machine.write(target, result)
        elif isinstance(target, ast.Subscript):
            owner, key = resolved(self.machine.value(target.value)), key_of(self.subscripts.index(target))
            if isinstance(owner, Container) and key is not None:
                owner.set_part(key, result)
            whole = target.value
            while isinstance(whole, ast.Subscript):
                whole = whole.value
            if (
                isinstance(whole, ast.Name)
                and isinstance(old, Tensor)
                and (old.base is not None or old.op == operators.GETITEM)
                and isinstance(resolved(self.machine.read(whole.id)), Tensor)
            ):
                self.state.bind(whole.id, result)
        return result

    def step_if_update(self, node: ast.AST, target: ast.expr, by: tuple[Value, ...], *, in_place: bool = False) -> None:
        """Record a parameter update by hand.

        That is `p.data -= lr * p.grad`, `p.data.add_(p.grad, alpha=-lr)`, or `w -= lr * w.grad` without gradients.
        """
        through_data = isinstance(target, ast.Attribute) and target.attr == "data"
        base = target.value if isinstance(target, ast.Attribute) and through_data else target
        name = dotted(base)
        if not name or not (through_data or (in_place and self.state.mode is not GradMode.ON)):
            return
        owner = resolved(self.machine.value(base))
        gradient = owner.part("grad")
        if gradient is not None and gradient in ancestry(by):
            self.state.emit(Step(site_of(node), owner, name, manual=True))


def _goes_down(call: ast.Call, method: ast.Attribute) -> bool:
    """Whether a change goes against the value's own gradient as written: `p.data.add_(p.grad, alpha=-lr)`."""
    changed = dotted(method.value).removesuffix(".data")
    if f"{changed}.grad" not in names_read(call):
        return False
    negative = any(isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub) for item in walk(call))
    return method.attr == "sub_" or (method.attr == "add_" and negative)
