"""A softmax or cross-entropy over a single class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import losses, masks, numbers
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import TensorType


_ADVICE = "use `binary_cross_entropy_with_logits`"
_SOFTMAXES = frozenset({"softmax", "log_softmax"})
_SEQUENTIAL = "torch.nn.Sequential"
_STEPS = 4
_LAYERS = frozenset({"torch.nn.Softmax", "torch.nn.LogSoftmax"})


class Constant(NamedTuple):
    """The result at `site` is a constant, because its operand has one class."""

    site: Site
    is_loss: bool
    computed: Site | None
    """The place inside the program's own loss module that computes the loss."""
    is_argmax: bool = False


class SingleClass(Rule):
    """A softmax, argmax or cross-entropy over one class is constant.

    ## What it does
    Finds `cross_entropy` of logits with one class, and softmaxes and argmaxes over a dimension of size 1. Reported only
    if the sizes are literal, as in `nn.Linear(d, 1)` and `nn.Conv2d(d, 1, 1)`. torchlint follows them through modules
    and `nn.Sequential`.

    ## Why is this bad?
    A softmax over one number is 1. The cross-entropy is 0, and so is its gradient, so the model learns nothing from it.
    Attention weights are all 1 if the softmax is over the last dimension of `nn.Linear(d, 1)` instead of the positions.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def pool(states):
        score = torch.nn.Linear(64, 1)
        weights = F.softmax(score(states), dim=-1)
        return (weights * states).sum(1)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def pool(states):
        score = torch.nn.Linear(64, 1)
        weights = F.softmax(score(states), dim=1)
        return (weights * states).sum(1)
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if three calls to the loss, the softmax or `argmax` at the line were over
    one class. It refutes the finding if there were always several classes.

    ## References
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html), the
      loss for one logit
    """

    code = "TL523"
    category = Category.CORRECTNESS
    triggers = ((b"oftmax", b"argmax", b"cross_entropy", b"CrossEntropyLoss"),)
    calls = frozenset({"argmax", "softmax", "log_softmax", "cross_entropy", "CrossEntropyLoss"})

    def ask(self) -> Iterator[Constant]:
        if self.model.is_test:
            return
        for event, loss in self.model.endings.losses("cross_entropy"):
            given = values.resolved(losses.operands(loss)[0])
            if isinstance(given, values.Parameter) and isinstance(event.value, values.ModuleOutput):
                given = event.value.given.get(given.label, given)  # the `forward` of the program's own loss
            if self._has_one(given, None):
                yield Constant(event.site, is_loss=True, computed=loss.site if loss is not event.value else None)
        yield from self._softmaxes()
        yield from self._layers()
        for value in list(self.model.program.observations.calls):
            if isinstance(value, values.Tensor) and value.op == operators.ARGMAX and value.site is not None:
                dimension = self._dimension(value)
                is_own = self.model.tree.own_node(value.site) is not None and bool(value.parents)
                if is_own and dimension is not None and self._has_one(value.parents[0], dimension):
                    yield Constant(value.site, is_loss=False, computed=None, is_argmax=True)

    def _softmaxes(self) -> Iterator[Constant]:
        """Softmaxes over one class, also in modules that the program calls."""
        seen = set[Site]()
        for value, calls in self.model.computed:
            dimension, operand = self._softmax(value)
            if dimension is not None and operand is not None and value.site is not None:
                if value.site not in seen and self._has_one(operand, dimension, calls):
                    seen.add(value.site)
                    yield Constant(value.site, is_loss=False, computed=None)

    def _layers(self) -> Iterator[Constant]:
        """Softmax layers of a `Sequential` whose other layers leave one class."""
        made = (values.resolved(event.value) for trace in self.model.program.traces for event in trace.of(events.Fresh))
        for module in (item for item in made if isinstance(item, values.Module) and item.name == _SEQUENTIAL):
            for layer in map(values.resolved, module.parents):
                if isinstance(layer, values.Module) and layer.name in _LAYERS and layer.site is not None:
                    dimension, types = self._dimension_of(layer), self.model.shapes.types_before(layer, module)
                    if dimension is not None and types and all(_is_one(item, dimension) for item in types):
                        yield Constant(layer.site, is_loss=False, computed=None)

    def _softmax(self, value: values.Tensor) -> tuple[int | None, values.Value | None]:
        """The dimension and the operand of a softmax, as a function or as a layer."""
        if value.op in _SOFTMAXES and value.parents:
            return self._dimension(value), value.parents[0]
        layer = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        if not isinstance(layer, values.Module) or layer.name not in _LAYERS or len(value.parents) < 2:
            return None, None
        return self._dimension_of(layer), value.parents[1]

    def _dimension_of(self, layer: values.Module) -> int | None:
        made = self.model.program.observations.calls.get(layer)
        given = made[1].get(0, "dim") if made is not None else None
        number = numbers.of(given, self.model.program)
        return number if isinstance(number, int) else None

    def _has_one(self, value: values.Value, dimension: int | None, calls: masks.Calls = ()) -> bool:
        """Whether a dimension of a tensor surely has one element. None means the dimension of classes.

        Random numbers and constants are no scores of a network: their sizes are those of a test or of an example.
        """
        if _is_new(value):
            return False
        types = self.model.shapes.types_of(value, calls)
        ranks = [item.rank for item in types if item.rank is not None]
        if dimension is None and len(ranks) == len(types) > 1:  # a convolution may get a single image without a batch
            return all(_is_one(item, int(item.rank == max(ranks))) for item in types)
        return bool(types) and all(_is_one(item, dimension) for item in types)

    def _dimension(self, softmax: values.Tensor) -> int | None:
        """The dimension of a softmax, if the code states it."""
        known = self.model.program.observations.calls.get(softmax)
        if known is None:
            return None
        _, arguments, receiver = known
        given = arguments.get(0 if receiver is not None else 1, "dim")
        number = values.resolved(given) if given is not None else None
        constant = number.constant if isinstance(number, values.Plain) and number.is_literal else None
        return constant if isinstance(constant, int) else None

    def report_Constant(self, found: Constant) -> None:
        message, help_ = (
            ("the cross-entropy of one class is 0 for any logits: the model learns nothing from it", _ADVICE)
            if found.is_loss
            else (
                "this argmax is over a dimension of size 1: it is 0 for any input",
                "check whether the logit is above 0",
            )
            if found.is_argmax
            else (
                "this softmax is over a dimension of size 1: each result is constant and has no gradient",
                "apply it along the other dimension",
            )
        )
        related = [(found.computed, "the loss is computed here")] if found.computed is not None else ()
        self.report(found.site, message, related=related, help=help_)


def _is_one(known: TensorType, dimension: int | None) -> bool:
    """Whether a dimension has size 1. If only the last size of logits is known, it is the number of classes."""

    if dimension is None:
        dimension = -1 if known.is_open or known.rank == 1 else 1
        if known.is_open and len(known.sizes) != 1:
            return False
    size = known.size(dimension)
    return size is not None and size.number == 1


def _is_new(value: values.Value) -> bool:
    """Whether a tensor is new, such as one of random numbers, or computed from new ones only."""
    value = values.resolved(value)
    for _ in range(_STEPS):
        if not isinstance(value, values.Tensor) or isinstance(value, (values.NewTensor, values.ModuleOutput)):
            break
        tensors = [item for item in map(values.resolved, value.parents) if not isinstance(item, values.Plain)]
        if len(tensors) != 1:
            return False
        value = tensors[0]
    return isinstance(value, values.NewTensor)
