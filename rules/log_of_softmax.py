"""Logarithms of probabilities that may be 0."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, program, values
from torchlint.model.queries import arithmetic, endings, masks
from torchlint.pytorch import api, naming, operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_ELEMENTS = {"gather", "index_select", "select", "take_along_dim", "masked_select"}
_CHOOSING = frozenset({*_ELEMENTS, operators.GETITEM, operators.MUL})
_DRAWING = frozenset({"sample", "rsample", "multinomial", "choice", "choices"})
_ONE_HOT = frozenset({operators.ONE_HOT, "scatter", "scatter_"})
_DOUBLE = LazyPattern(r"float64|double")
_DIFFERENCES = frozenset({operators.SUB, operators.RSUB})
_LOGARITHMS = frozenset({"log", "log2", "log10"})


class Probability(NamedTuple):
    """The operand of a logarithm: its name, its activation, when it is 0, and the call to use instead."""

    name: str
    activation: str
    when: str
    instead: str


_SOFTMAX = Probability(
    "a softmax", "softmax", "once a logit leads by about 100", "use `torch.nn.functional.log_softmax`"
)
_SIGMOID = Probability(
    "a sigmoid", "sigmoid", "once the score is below about -90", "use `torch.nn.functional.logsigmoid`"
)
_MIXTURE = Probability(
    "a mixture of softmaxes", "softmax", "once both are 0", "add a small number such as `1e-12` before the logarithm"
)
_COMPLEMENT = Probability(
    "1 minus a sigmoid",
    "sigmoid",
    "once the score is above 17",
    "use `torch.nn.functional.logsigmoid` of the negative score",
)
_OF_LABEL = Probability(
    "the probability of the label, a sigmoid or 1 minus it,",
    "sigmoid",
    "once the score of a wrong prediction is above 17",
    "use `torch.nn.functional.binary_cross_entropy_with_logits`, or add a small number before the logarithm",
)


class LogOfZero(NamedTuple):
    """The logarithm at `log` has as its operand the probability computed at `source`."""

    log: Site
    source: Site
    probability: Probability
    has_graph: bool
    """Whether gradients may flow through it. They do not for a teacher's probabilities."""
    is_drawn: bool = False
    """Whether it is the probability of an action that was drawn from it, which is hardly ever tiny."""


class LogOfSoftmax(Rule):
    """The logarithm of a softmax or sigmoid may be the logarithm of 0.

    ## What it does
    Finds `log` of a softmax or sigmoid, or of 1 minus a sigmoid, where nothing in between keeps the operand above 0.
    The activation may be in the same function or in a module in the same file. Indexing, `gather`, or a sum with
    one-hot labels may come between. Also finds `log` of a mixture of two softmaxes, such as that of a pointer network,
    and of `torch.where(y == 1, p, 1 - p)`, where `p` is a sigmoid.

    Four kinds of findings need `--preview`:

    - code where torchlint cannot tell whether gradients are computed
    - code that divides unknown scores by a temperature, because they may be products of normalized vectors, whose
      softmax is never 0
    - the probability of an action that was drawn from the softmax, because a drawn probability is hardly ever tiny
    - `p * y + (1 - p) * (1 - y)`, because soft labels keep it above 0

    ## Why is this bad?
    float32 rounds a small probability to 0, although its logarithm, such as -200, is an ordinary number. The loss is
    then infinite, and its gradient is NaN. One confident wrong prediction turns all weights into NaN. `log_softmax` and
    `logsigmoid` compute the same values directly from the scores, without this loss of precision.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, optimizer, loader):
        for x, labels in loader:
            probabilities = F.softmax(model(x), dim=1)
            loss = -torch.log(probabilities.gather(1, labels)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def train(model, optimizer, loader):
        for x, labels in loader:
            logarithms = F.log_softmax(model(x), dim=1)
            loss = -logarithms.gather(1, labels).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix replaces the two calls with `log_softmax` or `logsigmoid`. It is unsafe, because results that were infinite
    or NaN change.

    ## What verify shows
    `torchlint verify` looks at the probabilities whose logarithm the line takes. It confirms the finding if one of them
    is 0.

    ## References
    - [torch.nn.functional.log_softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html):
      "While mathematically equivalent to log(softmax(x)), doing these two operations separately is slower and
      numerically unstable"
    """

    code = "TL503"
    category = Category.SUSPICIOUS
    triggers = ((b"log",), (b"oftmax", b"igmoid"))
    calls = _LOGARITHMS

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return any(True for _ in index.mentions(_LOGARITHMS))

    def ask(self) -> Iterator[LogOfZero]:
        """Logarithms of operands that may be 0. Excludes tests, which know the inputs of the values they expect."""
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                for log, calls in masks.computed_in_calls(event.value) if event.mode is api.GradMode.ON else ():
                    if log.op in _LOGARITHMS and log.site is not None and not self._is_logit(log.site):
                        if log.site not in seen and not self._is_inference(log.site, trace):
                            is_measured = self._is_evaluated(event.value, trace)
                            for found in self._of_probability(log, log.site, calls, trace):
                                seen.add(found.log)
                                yield found._replace(has_graph=found.has_graph and not is_measured)

    def _is_evaluated(self, value: values.Value, trace: program.Trace) -> bool:
        """Whether all modules behind a value evaluate, and no backward runs through it: a metric has no gradients."""
        graph = self.model.tracking.graph(value)
        passes = [(item, module) for item, module in self.model.mode.passes(trace) if item.value in graph]
        settings = [self.model.mode.at(trace, item, module) for item, module in passes]
        if not settings or not all(found and all(item.is_evaluating for item in found) for found in settings):
            return False
        ends = (event.outputs for event in trace.of_kinds(events.Backward, events.Grad))
        return not any(value in self.model.tracking.pass_through(outputs) for outputs in ends)

    def _is_inference(self, site: Site, trace: program.Trace) -> bool:
        """Whether a function generates, by its name or because such a function calls it."""
        around = self.model.definitions.method_around(self.model.tree.node(site))
        names = [info.name for info in (around, trace.root) if info is not None]
        return any(naming.GENERATING.search(name) or naming.INFERENCE.search(name) for name in names)

    def _of_probability(
        self, log: values.Tensor, site: Site, calls: masks.Calls, trace: program.Trace
    ) -> Iterator[LogOfZero]:
        given = _selected(values.resolved(log.parents[0]))
        if self._is_overwritten(given, trace):
            return
        chosen, is_sure = _of_label(given)
        if chosen is not None:
            source = self.model.endings.of(chosen, {"sigmoid"}, endings.SHAPES, calls[-1] if calls else None)
            if source is not None and not _DOUBLE.search(self.model.tree.code(source)):
                has_graph = self.model.tracking.tracked_in_calls(log, calls) is values.Answer.YES
                has_graph = has_graph and is_sure and not self.model.domain.is_detached(log)
                yield LogOfZero(site, source, _OF_LABEL, has_graph)
            return
        complement = _complement(given)
        through, call = endings.SHAPES | _ELEMENTS, calls[-1] if calls else None
        for probability, value in ((_SOFTMAX, given), (_SIGMOID, given), (_COMPLEMENT, complement)):
            if value is None:
                continue
            source = self.model.endings.of(value, {probability.activation}, through, call)
            if source is None and probability is _SOFTMAX:
                source, probability = self._mixed(value, call), _MIXTURE
            if source is not None and not _DOUBLE.search(self.model.tree.code(source)):
                scores = self.model.endings.operand(value, {probability.activation}, through, call)
                has_graph = self.model.tracking.tracked_in_calls(log, calls) is values.Answer.YES
                if probability is _SOFTMAX and self.model.domain.is_similarity(scores):
                    continue
                has_graph = has_graph and not self.model.domain.may_be_similarity(scores)
                has_graph = has_graph and not self.model.domain.is_detached(log)
                yield LogOfZero(site, source, probability, has_graph, self._is_of_action(log.parents[0]))

    def _is_of_action(self, value: values.Value) -> bool:
        """Whether a value holds the probabilities of drawn actions only: `p.gather(1, action)`."""
        value, seen = values.resolved(value), set[values.Value]()
        while isinstance(value, values.Tensor) and value.parents and value not in seen:
            seen.add(value)
            node = self.model.tree.node(value.site)
            is_choice = value.op in _CHOOSING and isinstance(node, (ast.Call, ast.Subscript, ast.BinOp))
            if is_choice and any(map(self._is_drawn, _indices(node))):
                return True
            value = values.resolved(value.parents[0])
        return False

    def _is_drawn(self, index: ast.AST) -> bool:
        """Whether an index is an action by its name, or comes from a call that draws it."""
        names = [item for item in python_ast.walk(index) if isinstance(item, (ast.Name, ast.Attribute))]
        if any(naming.ACTION.search(python_ast.last_name(item)) for item in names):
            return True
        made = [index, *(self.model.provenance.created(item) for item in names if isinstance(item, ast.Name))]
        calls = (item for each in made if each is not None for item in python_ast.walk(each))
        return any(isinstance(item, ast.Call) and python_ast.called_name(item) in _DRAWING for item in calls)

    def _mixed(self, value: values.Value, call: values.ModuleOutput | None) -> Site | None:
        """The first softmax of a mixture of two: `g * softmax(x) + (1 - g) * softmax(y)`."""
        value = values.resolved(value)
        while isinstance(value, values.Tensor) and value.op in endings.SHAPES | _ELEMENTS and value.parents:
            value = values.resolved(value.parents[0])
        if isinstance(value, values.ModuleOutput):
            return self._mixed(value.body, value) if value.body is not None else None
        if not isinstance(value, values.Tensor) or value.op != operators.ADD or len(value.parents) != 2:
            return None
        found = [self._weighted(values.resolved(item), call) for item in value.parents]
        return found[0] if None not in found else None

    def _weighted(self, value: values.Value, call: values.ModuleOutput | None) -> Site | None:
        """The softmax in a product."""
        factors = value.parents if isinstance(value, values.Tensor) and value.op == operators.MUL else ()
        found = (self.model.endings.of(item, {operators.SOFTMAX}, endings.SHAPES, call) for item in factors)
        return next((item for item in found if item is not None), None)

    def _is_logit(self, site: Site) -> bool:
        """Whether a logarithm is one side of `log(p) - log(1 - p)`, the inverse of the sigmoid."""
        node = self.model.tree.node(site)
        around = self.model.tree.parent(node)
        if not isinstance(around, ast.BinOp) or not isinstance(around.op, ast.Sub):
            return False
        calls = [side for side in (around.left, around.right) if isinstance(side, ast.Call)]
        sides = [
            arithmetic.operand(call, self.model.definitions)[0]
            for call in calls
            if python_ast.called_name(call) in _LOGARITHMS
        ]
        return len(sides) == 2 and sum(arithmetic.complement(side) is not None for side in sides) == 1

    def _is_overwritten(self, given: values.Value, trace: program.Trace) -> bool:
        """Whether code modifies a value in place, possibly away from 0: `p.data.clamp_(0.01, 0.99)`."""
        return any(given in lineage.storages(change.target) for change in trace.of(events.Mutate))

    # -- report ---------------------------------------------------------------------------------------

    def report_LogOfZero(self, answer: LogOfZero) -> None:
        probability = answer.probability
        then = "the logarithm is -inf and gradients are NaN" if answer.has_graph else "the logarithm is -inf"
        when = probability.when if not answer.is_drawn else "if an action is drawn that has become very unlikely"
        self.report(
            answer.log,
            f"{probability.name} may be 0: {then} {when}",
            related=[(answer.source, f"the {probability.activation} is here")],
            help=probability.instead,
            fix=self._fix(answer),
            confidence=Confidence.HIGH if answer.has_graph and not answer.is_drawn else Confidence.LOW,
        )

    def _fix(self, answer: LogOfZero) -> edits.Change | None:
        """The fix that replaces two nested calls by one."""
        log = self.model.tree.node(answer.log)
        written = self.written(answer.log)
        inner = arithmetic.operand(log, self.model.definitions)[0] if isinstance(log, ast.Call) else None
        if written is None or not isinstance(log, ast.Call) or not isinstance(inner, ast.Call):
            return None
        if python_ast.called_name(log) != "log":
            return None
        if (
            answer.probability is not _SOFTMAX
            or not isinstance(inner.func, ast.Attribute)
            or inner.func.attr != "softmax"
        ):
            return None
        if not self.model.definitions.named(inner.func).startswith("torch.") and not _is_of_tensor(inner):
            return None
        start, end = self.model.tree.code(inner.func.value), self.model.tree.code(inner)
        content = f"{start}.log_softmax{end[len(self.model.tree.code(inner.func)) :]}"
        return edits.Change("use `log_softmax`", [edits.Replace(written, content)]) if "\n" not in content else None


def _indices(choice: ast.AST | None) -> list[ast.AST]:
    """The expressions that choose elements: the arguments of `gather`, an index, the factors of a product."""
    if isinstance(choice, ast.Call):
        return list(python_ast.arguments(choice))
    return [choice.slice] if isinstance(choice, ast.Subscript) else [choice] if choice is not None else []


def _selected(value: values.Value) -> values.Value:
    """The probabilities from which a sum with one-hot labels takes one: `(p * one_hot).sum(1)`."""
    is_sum = isinstance(value, values.Tensor) and value.op == operators.SUM and bool(value.parents)
    product = values.resolved(value.parents[0]) if is_sum and isinstance(value, values.Tensor) else None
    if not isinstance(product, values.Tensor) or product.op != operators.MUL or len(product.parents) != 2:
        return value
    first, second = product.parents
    others = [one for one, other in ((first, second), (second, first)) if _is_one_hot(other)]
    return values.resolved(others[0]) if len(others) == 1 else value


def _is_one_hot(value: values.Value) -> bool:
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op in endings.SHAPES and value.parents:
        value = values.resolved(value.parents[0])
    return isinstance(value, values.Tensor) and value.op in _ONE_HOT


def _is_of_tensor(softmax: ast.Call) -> bool:
    """Whether a softmax is a method of its operand, so that it gets a dimension and no tensor."""
    given = python_ast.arguments(softmax)
    numbers = (item.operand if isinstance(item, ast.UnaryOp) else item for item in given)
    return bool(given) and all(isinstance(item, ast.Constant) for item in numbers)


def _of_label(value: values.Value) -> tuple[values.Value | None, bool]:
    """The `p` of `torch.where(y == 1, p, 1 - p)`, or of `p * y + (1 - p) * (1 - y)`, which soft labels keep above 0.

    Also returns whether it is the first form, which chooses one of both.
    """
    is_choice = isinstance(value, values.Tensor) and value.op == operators.WHERE and len(value.parents) == 3
    is_sum = isinstance(value, values.Tensor) and value.op == operators.ADD and len(value.parents) == 2
    if not isinstance(value, values.Tensor) or not (is_choice or is_sum):
        return None, False
    sides = [[values.resolved(item)] for item in value.parents[-2:]]
    if is_sum:
        sides = [_factors(item) for (item,) in sides]
    for ones, others in (sides, sides[::-1]):
        for item in others:
            probability = _complement(item)
            if probability is not None and probability in ones:
                return probability, is_choice
    return None, False


def _factors(value: values.Value) -> list[values.Value]:
    is_product = isinstance(value, values.Tensor) and value.op == operators.MUL
    return list(map(values.resolved, value.parents)) if is_product and isinstance(value, values.Tensor) else []


def _complement(value: values.Value) -> values.Value | None:
    """The probability `p` of `1 - p`."""
    if not isinstance(value, values.Tensor) or value.op not in _DIFFERENCES or len(value.parents) < 2:
        return None
    first, second = value.parents[:2] if value.op == operators.SUB else value.parents[1::-1]
    one = values.resolved(first)
    return values.resolved(second) if isinstance(one, values.Plain) and one.constant in (1, 1.0) else None
