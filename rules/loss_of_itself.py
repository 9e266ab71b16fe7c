"""Losses that compare a value with itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import losses, numbers
from torchlint.pytorch import operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")
_SHAPES = frozenset("view reshape squeeze unsqueeze flatten contiguous float detach clone".split())
_SOFTMAX = frozenset({"softmax", "log_softmax", "log", "clamp"})
_REPEATS = (*python_ast.LOOPS, *python_ast.COMPREHENSIONS)


class OfItself(NamedTuple):
    """Both operands of the loss at `loss` come only from the value `label`, made at `made`."""

    loss: Site
    made: Site | None
    label: str


class LossOfItself(Rule):
    """A loss compares a value with itself.

    ## What it does
    Finds `mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss` and `kl_div` whose input and target are the same tensor.
    For `kl_div`, both are softmaxes of the same scores. Comparisons that a program only prints or asserts are not
    reported.

    ## Why is this bad?
    The loss is 0, and so is its gradient, so the model learns nothing from this term. The rest of the loss still falls.
    The error stays hidden: the student never matches its teacher, or the decoder never matches its input.

    ## Example
    ```python
    import torch.nn.functional as F

    def distill(student, teacher, x, temperature):
        scores, target = student(x), teacher(x)
        soft = F.log_softmax(scores / temperature, dim=1)
        return F.kl_div(soft, F.softmax(scores / temperature, dim=1), reduction="batchmean")
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def distill(student, teacher, x, temperature):
        scores, target = student(x), teacher(x)
        soft = F.log_softmax(scores / temperature, dim=1)
        return F.kl_div(soft, F.softmax(target / temperature, dim=1), reduction="batchmean")
    ```
    """

    code = "TL534"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"_loss", b"Loss", b"kl_div", b"KLDivLoss"))
    calls = frozenset("mse_loss MSELoss l1_loss L1Loss smooth_l1_loss SmoothL1Loss kl_div KLDivLoss".split())

    def ask(self) -> Iterator[OfItself]:
        if self.model.is_test:
            return
        for event, loss in self.model.endings.losses(*_LOSSES):
            given = losses.operands(loss)
            if len(given) < 2:
                continue
            is_kl = losses.loss_function(loss) == "kl_div"
            first, second = (self._source(item, is_kl) for item in given[:2])
            whole = first[0]
            is_same = first == second and self._is_one(whole, event)
            if is_same and not self._is_carried(event.site) and self._may_train(loss):
                yield OfItself(event.site, whole.site, whole.label or self._code(whole))

    def _may_train(self, loss: values.Tensor) -> bool:
        """Whether a backward pass may reach the loss: it has a graph, or a function returns it. Others are checks."""
        if self.model.tracking.tracked(loss) is values.Answer.YES:
            return True
        traces = self.model.program.traces
        given = [event.outputs for trace in traces for event in trace.of_kinds(events.Backward, events.Grad)]
        given += [event.value for trace in traces for event in trace.of(events.Returned)]
        return any(loss in self.model.tracking.graph(value) for value in given)

    def _is_one(self, value: values.Value, loss: events.Compute) -> bool:
        """Whether a value is a single tensor. Excludes elements with an unknown key, and items made in another loop."""
        if not isinstance(value, (values.Tensor, values.Unknown)) or value.label.startswith("["):
            return False
        if isinstance(value, values.Element) and value.parents and value.parents[0].key_of(value) == "[None]":
            return False  # perhaps a name stands for it: `first = x[:, :size]`
        around = {loop.site for loop in loss.loops} | self._repeats(loss.site)
        return value.site is None or self._repeats(value.site) <= around

    def _is_carried(self, loss: Site) -> bool:
        """Whether an operand is a variable that the loop sets only after the loss: it is of the previous iteration."""
        call = self.model.tree.node(loss)
        if not isinstance(call, ast.Call):
            return False
        around = self.model.tree.loop_around(call)
        names = {
            python_ast.dotted(item) for item in python_ast.walk(call) if isinstance(item, (ast.Name, ast.Attribute))
        }
        stored: dict[str, list[int]] = {}
        for item in python_ast.walk(around) if around is not None else ():
            if isinstance(item, (ast.Name, ast.Attribute)) and isinstance(item.ctx, ast.Store):
                stored.setdefault(python_ast.dotted(item), []).append(item.lineno)
        return any(min(lines) > call.lineno for name, lines in stored.items() if name in names)

    def _repeats(self, site: Site) -> set[Site]:
        """The loops and comprehensions around a place."""
        around = self.model.tree.ancestors(self.model.tree.node(site))
        return {python_ast.site_of(item) for item in around if isinstance(item, _REPEATS)}

    def _source(self, value: values.Value, is_kl: bool) -> tuple[values.Value, tuple[object, ...]]:
        """The value that an operand is computed from, with the operators and numbers applied to it."""
        steps: list[object] = []
        value = values.resolved(value)
        for _ in range(12):
            if not isinstance(value, values.Tensor) or isinstance(value, values.ModuleOutput) or not value.parents:
                break
            if value.op in _SHAPES or (is_kl and value.op in _SOFTMAX):
                if value.op.endswith("softmax"):
                    steps.append(numbers.dimension(value, self.model.program))
                value = values.resolved(value.parents[0])
            elif value.op == operators.DIV and len(value.parents) == 2:
                steps.append((value.op, self._number(value.parents[1])))
                value = values.resolved(value.parents[0])
            else:
                break
        return value, tuple(steps)

    def _number(self, value: values.Value) -> object:
        """A number in a form that two of them can be compared in."""
        value = values.resolved(value)
        if isinstance(value, values.Plain) and value.is_literal:
            return value.constant
        return value

    def _code(self, value: values.Value) -> str:
        code = self.model.tree.code(value.site) if value.site is not None else ""
        return code if len(code) < 40 else ""

    def report_OfItself(self, found: OfItself) -> None:
        name = f"`{found.label}`" if found.label else "one tensor"
        self.report(
            found.loss,
            f"the loss compares {name} with itself: it is always 0, and the model learns nothing from it",
            related=[(found.made, "both operands come from here")] if found.made is not None else (),
            help="pass the other tensor as the target",
        )
