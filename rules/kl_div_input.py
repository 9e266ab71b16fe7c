"""Arguments of the Kullback-Leibler divergence on the wrong scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.model import module_values, values
from torchlint.model.queries import endings, losses
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


_SCORES = frozenset({"linear", "conv1d", "conv2d", "conv3d"})


class WrongScale(NamedTuple):
    """The divergence at `loss` gets, from `source`, probabilities or scores as input, or logarithms as `target`."""

    loss: Site
    source: Site
    is_target: bool
    is_score: bool = False
    """Whether the input is the output of a layer, without any activation."""


class KlDivInput(Rule):
    """`kl_div` gets probabilities or raw scores as input, or logarithms as target.

    ## What it does
    Finds calls to `F.kl_div` and `nn.KLDivLoss` without `log_target=True`, where the input is the result of a softmax
    or sigmoid, or the output of a linear layer or convolution, or where the target is the result of a `log_softmax` or
    `logsigmoid`.

    ## Why is this bad?
    `kl_div` expects log-probabilities as input and probabilities as target. Otherwise the result is not a divergence.
    It can be negative, and it is not smallest where the two distributions are equal. A student network does not learn
    to match its teacher.

    ## Example
    ```python
    import torch.nn.functional as F

    def distill(student, teacher, x):
        p = F.softmax(student(x), dim=1)
        q = F.softmax(teacher(x), dim=1)
        return F.kl_div(p, q, reduction="batchmean")
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def distill(student, teacher, x):
        p = F.log_softmax(student(x), dim=1)
        q = F.softmax(teacher(x), dim=1)
        return F.kl_div(p, q, reduction="batchmean")
    ```

    ## Fix safety
    The fix passes `log_target=True`, which matches the target. The fix is unsafe, because it changes the loss.

    ## What verify shows
    `torchlint verify` observes the arguments of the loss. It confirms the finding if the input has values above zero,
    or the target has values below zero. It refutes the finding if all inputs are log-probabilities and all targets are
    probabilities.

    ## References
    - [torch.nn.functional.kl_div](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.kl_div.html):
      "input: Tensor of arbitrary shape in log-probabilities"
    """

    code = "TL507"
    category = Category.CORRECTNESS
    triggers = ((b"kl_div", b"KLDivLoss"), (b"torch",))
    calls = frozenset({"kl_div", "KLDivLoss"})

    def ask(self) -> Iterator[WrongScale]:
        for event, loss in self.model.endings.losses("kl_div"):
            given = losses.operands(loss)
            through = endings.SHAPES | endings.BOUNDS
            probabilities = self.model.endings.of(given[0], {"softmax", "sigmoid"}, through, event.value)
            if probabilities is not None:
                if not self.model.endings.is_inside(event, loss, probabilities):
                    yield WrongScale(event.site, probabilities, is_target=False)
                continue
            scores = self.model.endings.of(given[0], _SCORES, call=event.value)
            if scores is not None and not self.model.endings.is_inside(event, loss, scores):
                yield WrongScale(event.site, scores, is_target=False, is_score=True)
                continue
            logarithms = self.model.endings.of(given[1], {"log_softmax", "logsigmoid"}) if len(given) > 1 else None
            if logarithms is None or self.model.endings.is_inside(event, loss, logarithms):
                continue
            if not self._takes_logarithms(loss):
                yield WrongScale(event.site, logarithms, is_target=True)

    def _takes_logarithms(self, loss: values.Tensor) -> bool:
        """Whether the call, or the module's constructor, may declare a logarithmic target."""
        module = values.resolved(loss.parents[0]) if isinstance(loss, values.ModuleOutput) else None
        if module is not None and not module_values.is_as_made(module):
            return True
        calls = [self.model.tree.node(value.site) for value in (loss, module) if value is not None and value.site]
        for call in calls:
            keywords = call.keywords if isinstance(call, ast.Call) else []
            starred = isinstance(call, ast.Call) and any(isinstance(item, ast.Starred) for item in call.args)
            flags = (item for item in keywords if item.arg in ("log_target", None))
            if starred or any(item.arg is None or not python_ast.is_literal(item.value, False) for item in flags):
                return True
            if isinstance(call, ast.Call) and len(call.args) > 3:
                return True
        return False

    def report_WrongScale(self, wrong: WrongScale) -> None:
        if wrong.is_score:
            self.report(
                wrong.loss,
                "`kl_div` expects log-probabilities as input, but gets raw scores: the result is not a divergence",
                related=[(wrong.source, "this layer computes the scores")],
                help="compute the input with `log_softmax`",
            )
            return
        if not wrong.is_target:
            self.report(
                wrong.loss,
                "`kl_div` expects log-probabilities as input, but gets probabilities: the result is not a divergence",
                related=[(wrong.source, "the probabilities are made here")],
                help="compute the input with `log_softmax`",
            )
            return
        self.report(
            wrong.loss,
            "`kl_div` expects probabilities as target, but gets log-probabilities: the result is not a divergence",
            related=[(wrong.source, "the logarithms are made here")],
            help="pass `log_target=True`",
            fix=self._fix(wrong.loss),
        )

    def _fix(self, site: Site) -> edits.Change | None:
        """The fix that adds the argument `log_target`, where the call is of the function."""
        call = self.model.tree.node(site)
        written = self.written(site)
        if written is None or not isinstance(call, ast.Call) or python_ast.called_name(call) != "kl_div":
            return None
        code = self.model.tree.code(site)[:-1].rstrip().removesuffix(",")
        if "\n" in code or any(item.arg == "log_target" for item in call.keywords):
            return None
        replaced = edits.Replace(written, f"{code}, log_target=True)")
        return edits.Change("declare that the target holds logarithms", [replaced])
