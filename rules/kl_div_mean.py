"""The Kullback-Leibler divergence with the default reduction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, module_values, values
from torchlint.model.queries import attention, endings, losses, numbers
from torchlint.pytorch import api, operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_LOG_SOFTMAX = "log_softmax"
_COUNT = LazyPattern(r"(?i)size|shape|class|vocab|len\(|num|dim|(?:^|[._])nc(?:_|$)")
_LOG_SOFTMAX = "log_softmax"
_CAT = frozenset({"cat", "concat"})
_KEEPING = frozenset({"detach", "clone", operators.NEG})
"""Operators that keep a distribution, apart from its sign."""


class Divided(NamedTuple):
    """The divergence at `loss` is divided by the number of all elements; `made` creates its module."""

    loss: Site
    made: Site | None


class ClassMean(NamedTuple):
    """The mean at `site` is along the dimension of the classes, as the softmax is."""

    site: Site
    loss: Site
    dimension: int


class WrittenMean(NamedTuple):
    """The mean at `site` is over the samples and the classes of a product of probabilities and logarithms."""

    site: Site
    product: Site


class KlDivMean(Rule):
    """`kl_div` without a `reduction` divides the divergence by the number of classes.

    ## What it does
    Finds `F.kl_div` and `nn.KLDivLoss` without the argument `reduction`, if the code does not multiply the result by a
    size. Also finds `kl_div(p, q, reduction="none").mean(1)` where `p` holds the logarithms of a softmax over the same
    dimension. Also finds a hand-written cross-entropy, `-(softmax(teacher) * log_softmax(student)).mean()`.

    ## Why is this bad?
    The default is the mean over all elements instead of the mean over samples. With 1000 classes, the loss and its
    gradient are 1000 times smaller than the divergence. Next to other loss terms, it hardly counts. PyTorch issues a
    warning at run time.

    ## Example
    ```python
    import torch.nn.functional as F

    def distill(student, teacher, x):
        p = F.log_softmax(student(x), dim=1)
        q = F.softmax(teacher(x), dim=1)
        return F.kl_div(p, q)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def distill(student, teacher, x):
        p = F.log_softmax(student(x), dim=1)
        q = F.softmax(teacher(x), dim=1)
        return F.kl_div(p, q, reduction="batchmean")
    ```

    ## References
    - [torch.nn.KLDivLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html): "`reduction="mean"`
      doesn't return the true KL divergence value, please use `reduction="batchmean"`"
    """

    code = "TL522"
    category = Category.SUSPICIOUS
    triggers = ((b"kl_div", b"KLDivLoss", b"log_softmax"),)
    calls = frozenset({"kl_div", "KLDivLoss", "log_softmax"})

    def ask(self) -> Iterator[Divided | ClassMean | WrittenMean]:
        yield from self._written_means() if not self.model.is_test else ()
        for event, loss in [] if self.model.is_test else self.model.endings.losses("kl_div"):
            yield from self._means(loss)
            if event.mode is api.GradMode.OFF or self._is_multiplied(loss):
                continue
            if event.value is not loss and self.model.tree.own_node(loss.site) is not None:
                continue  # the call to a loss module of this file, which has a finding of its own
            module = values.resolved(loss.parents[0]) if isinstance(loss, values.ModuleOutput) else None
            if module is not None and not module_values.is_as_made(module):
                continue
            site = module.site if module is not None else loss.site
            call = self.model.tree.node(site) if site is not None else None
            if isinstance(call, ast.Call) and self._is_default(call, 0 if module is not None else 2):
                yield Divided(event.site, module.site if module is not None else None)

    def _written_means(self) -> Iterator[WrittenMean]:
        """Means of products of soft targets and logarithms, over all elements."""
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Compute)):
            product = _product_of(event.value, self.model)
            if product is not None and product.site is not None and event.mode is not api.GradMode.OFF:
                if not self._is_multiplied(event.value):
                    yield WrittenMean(event.site, product.site)

    def _means(self, loss: values.Tensor) -> Iterator[ClassMean]:
        """Means of the elements of a divergence over the dimension of its softmax."""
        scores = values.resolved(losses.operands(loss)[0])
        if not isinstance(scores, values.Tensor) or scores.op != _LOG_SOFTMAX or loss.site is None:
            return
        classes = attention.dimension(scores, self.model.program)
        for mean in self.model.domain.users(loss):
            if mean.op == operators.MEAN and mean.site is not None and not self._is_multiplied(mean):
                if classes is not None and numbers.dimension(mean, self.model.program) == classes:
                    yield ClassMean(mean.site, loss.site, classes)

    def _is_default(self, call: ast.Call, positional: int) -> bool:
        """Whether a call leaves the reduction at its default."""
        is_short = len(call.args) <= positional and not any(isinstance(item, ast.Starred) for item in call.args)
        return is_short and all(item.arg in ("input", "target", "log_target") for item in call.keywords)

    def _is_multiplied(self, loss: values.Tensor) -> bool:
        """Whether code multiplies a divergence by a value that may be the number of classes."""
        users = list(self.model.domain.users(loss))
        products = [user for user in users if user.op == operators.MUL]
        factors = [item for product in products for item in product.parents if values.resolved(item) is not loss]
        if any(self._is_multiplied(user) for user in users if user.op == operators.NEG):
            return True
        return any(_COUNT.search(self._written(values.resolved(item))) for item in factors)

    def _written(self, factor: values.Value) -> str:
        if factor.site is None or isinstance(self.model.tree.node(factor.site), python_ast.FUNCTIONS):
            return factor.label
        return self.model.tree.code(factor.site)

    def report_ClassMean(self, found: ClassMean) -> None:
        self.report(
            found.site,
            f"the mean over dimension {found.dimension} divides the divergence by the number of classes",
            related=[(found.loss, "the divergence is computed here")],
            help=f"sum over the classes: `.sum({found.dimension})`",
        )

    def report_WrittenMean(self, found: WrittenMean) -> None:
        self.report(
            found.site,
            "the mean is over samples and classes, so the cross-entropy is divided by the number of classes",
            related=[(found.product, "the probabilities and logarithms are multiplied here")],
            help="sum over the classes before the mean: `.sum(1).mean()`",
        )

    def report_Divided(self, found: Divided) -> None:
        self.report(
            found.loss,
            "`kl_div` averages over all elements, so the loss is the divergence divided by the number of classes",
            related=[(found.made, "the loss is created here")] if found.made is not None else (),
            help='pass `reduction="batchmean"`',
        )


def _product_of(value: values.Value, model: Model) -> values.Tensor | None:
    """The product of soft targets and logarithms of other scores whose elements a value averages, all together."""
    if not isinstance(value, values.Tensor) or value.op != operators.MEAN or not _is_over_all(value, model):
        return None
    product = _positive(value.parents[0])
    if not isinstance(product, values.Tensor) or product.op != operators.MUL or len(product.parents) != 2:
        return None
    first, second = map(_positive, product.parents)
    for logarithms, targets in ((first, second), (second, first)):
        if isinstance(logarithms, values.Tensor) and logarithms.op == _LOG_SOFTMAX and logarithms.parents:
            is_other = not _is_of(targets, values.resolved(logarithms.parents[0]))
            return product if is_other and _is_distribution(targets, model) else None
    return None


def _positive(value: values.Value) -> values.Value:
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op == operators.NEG and value.parents:
        value = values.resolved(value.parents[0])
    return value


def _is_over_all(mean: values.Tensor, model: Model) -> bool:
    """Whether a mean has no dimension."""
    call = model.tree.node(mean.site) if mean.site is not None else None
    if not isinstance(call, ast.Call) or call.keywords or not mean.parents:
        return False
    is_function = python_ast.dotted(call.func) == "torch.mean"
    return len(call.args) == (1 if is_function else 0)


def _is_of(targets: values.Value, scores: values.Value) -> bool:
    """Whether targets come from the same scores: an entropy."""
    return scores in lineage.ancestry([values.resolved(targets)], lambda item: map(values.resolved, item.parents))


def _is_distribution(value: values.Value, model: Model) -> bool:
    """Whether a value surely holds probabilities of classes, perhaps with zeros for more classes."""
    value = values.resolved(value)
    if isinstance(value, values.Phi):
        return all(_is_distribution(item, model) for item in values.inputs_of(value) if item is not value)
    if isinstance(value, values.Tensor) and value.op in _CAT:
        parts = [part for item in value.parents for part in getattr(values.resolved(item), "parents", ())]
        return any(_is_distribution(item, model) for item in parts)
    site = model.endings.of(value, {"softmax"}, (endings.SHAPES - {operators.GETITEM}) | _KEEPING)
    return site is not None and not _is_over_samples(model.tree.node(site))


def _is_over_samples(softmax: ast.AST | None) -> bool:
    """Whether a softmax is along the first dimension, so that it weights samples."""
    if not isinstance(softmax, ast.Call):
        return False
    dimensions = [*softmax.args, *(item.value for item in softmax.keywords if item.arg == "dim")]
    return any(isinstance(item, ast.Constant) and item.value == 0 for item in dimensions)
