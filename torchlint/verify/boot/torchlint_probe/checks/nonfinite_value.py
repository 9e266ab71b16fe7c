"""A loss, a gradient or a model output is infinite or NaN. The line is the one that made the first such value.

The check tests the loss before each backward pass, the gradients before each step, and model outputs without gradients.
It reports a problem if one of them is infinite or NaN.

For a loss, the check searches the graph in the order of its creation for the first value that is not finite. It reports
the line of that operator with its module and the range of its inputs. If the check did not observe the origin, it
reports the backward pass. In steps that the check does not measure, it takes the line from a measured step with the
same operators. If the value has no graph, the check searches the next calls of the program for the line. If the program
ends before the backward pass, with an error or `sys.exit`, the check tests the losses in its variables. The standard
deviation of a single value, which is NaN, gets its own message.

For gradients, the check reports the first operator whose backward turned finite gradients into infinite or NaN ones. A
step that a gradient scaler skips does not count. The check does not need anomaly detection, and a GPU does not have to
wait for it.

Source: "Autograd mechanics, numerical accuracy" and `torch.autograd.detect_anomaly` in PyTorch's documentation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.loss import _Loss

from torchlint_probe.checks._bad_values import Bad, first_bad, is_finite
from torchlint_probe.checks._first_nan import FirstNan
from torchlint_probe.checks._loads import Loads
from torchlint_probe.checks.check import Operated, Sighting
from torchlint_probe.graphs import nodes
from torchlint_probe.hooks import Hook
from torchlint_probe.operators import Origin, origin
from torchlint_probe.remembered import Remembered
from torchlint_probe.values import dense

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_RISKY = (
    "ExpBackward",
    "Expm1",
    "Sqrt",
    "Rsqrt",
    "Pow",
    "Div",
    "Log",
    "Acos",
    "Asin",
    "Atan2",
    "Norm",
    "LinalgVectorNorm",
    "Std",
    "Var",
    "Cdist",
)
"""Name prefixes of operators that may have such gradients."""
_SPREADS = (torch.std, torch.var, torch.Tensor.std, torch.Tensor.var, torch.std_mean, torch.var_mean)
_PENDING = 64
"""Maximum number of pending answers from a device."""


class NonfiniteValue(Loads):
    """Reads losses and gradients; examines graphs only if something is wrong."""

    name = "nonfinite-value"
    code = "TW101"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._seen: Sighting | None = None
        self._evaluated: Sighting | None = None
        self._site = 0
        self._flags: list[tuple[str, Origin, torch.Tensor]] = []
        """Operators, their sites, and whether each turned finite gradients into one that is not finite."""
        self._flagged = 0
        """The step of these operators."""
        self._pending: list[tuple[int, torch.Tensor]] = []
        """Steps that were not measured, and whether the loss of each was not finite, which a device still holds."""
        self._loaded: dict[int, int] = {}
        """By identity, tensors that were not finite when a module loaded them, and the site of the load."""
        self._remembered = Remembered()
        self._search = FirstNan(probe)
        self._undefined: tuple[str, int, int] | None = None
        """The last statistic of one value, which is not a number: the operator, its site and the step."""

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(_SPREADS, self._spread)

    def _spread(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A deviation or variance was computed."""
        first, *_ = result if isinstance(result, tuple) and result else (result,)
        if not isinstance(first, torch.Tensor) or not args or not isinstance(args[0], torch.Tensor):
            return
        if 0 < first.numel() == args[0].numel() and first.is_cpu and bool(torch.isnan(first.detach()).all()):
            self._undefined = str(func.__name__).strip("_"), self.probe.sites.here(), self.probe.steps

    @property
    def _asks(self) -> bool:
        return self._seen is None and (self.probe.meter.device == "cpu" or self.probe.is_measured)

    @property
    def maker(self) -> tuple[str, Origin] | None:
        """The operator that made the first gradient that is not finite in the last backward."""
        return _maker(self._flags)

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        super().tap(hooks, probe)
        hooks.replace(sys, "exit", _Exit(probe))

    def died(self, error: BaseException) -> None:
        frames = list(self.probe.sites.frames_of(error))
        self._stopped(reversed(frames), self.probe.sites.of_traceback(error.__traceback__))

    def leaves(self) -> None:
        """The program calls `sys.exit`."""
        self._stopped(self.probe.sites.frames(), self.probe.sites.here())

    def _stopped(self, frames: Iterable[FrameType], site: int) -> None:
        """The program ends, perhaps because of a bad loss."""
        if self._seen is not None:
            return
        losses = (value for frame in frames for value in list(frame.f_locals.values()) if _is_bad_loss(value))
        loss = next(losses, None)
        if loss is not None:
            self._remembered.recall(nodes([loss]))
            self._found(loss, site, self._flags)

    # -- weights

    def loaded(self, module: torch.nn.Module, state: Any) -> None:
        for leaf in module.parameters():
            if self._seen is None and leaf.is_cpu and not is_finite(leaf):
                self._loaded[id(leaf)] = self.probe.sites.here()

    # -- losses

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        before, self._flags = self._flags, []
        self._end_search()
        if self._asks:
            bad = next((root for root in roots if not is_finite(root)), None)
            if bad is not None:
                self._found(bad, site, before)
                return
            graph = self.probe.checks.graph_of(roots)
            for node in graph:
                if _is_risky(node):
                    self._hook(node, origin(node))
            if len(roots) == 1 and graph and self.probe.is_measured:
                self._remembered.remember(graph, _is_risky)
        self._site = site

    def before_unseen_backward(self, roots: list[torch.Tensor]) -> None:
        if self._seen is not None and not self._search.is_on:
            return
        before, self._flags = self._flags, []
        self._end_search()
        root = next(iter(roots), None)
        if root is None or root.grad_fn is None or self._seen is not None:
            return
        if root.is_cpu:
            if not (math.isfinite(root.item()) if root.numel() == 1 else is_finite(root)):
                self._remembered.recall(nodes([root]))
                self._found(root, self.probe.sites.here(), before)
                return
        else:
            self._ask_device(root)
        for node, made in self._remembered.of_interest(root.grad_fn):
            self._hook(node, made)

    def _hook(self, node: Any, made: Origin) -> None:
        self._flagged = self.probe.steps
        node.register_hook(_GradientOf(self._flags, str(node.name()), made))

    def _ask_device(self, root: torch.Tensor) -> None:
        """Whether a loss is finite, without waiting for the answer; answers of many steps are read together."""
        self._pending.append((self.probe.steps, ~torch.isfinite(root.detach()).all()))
        if len(self._pending) >= _PENDING:
            self._read_pending()

    def _read_pending(self) -> None:
        pending, self._pending = self._pending, []
        answers = torch.stack([answer for _, answer in pending]).tolist() if pending else []
        step = next((step for (step, _), is_bad in zip(pending, answers, strict=True) if is_bad), None)
        if step is not None and self._seen is None:
            message = "the loss is not finite: its origin is unknown, because the step was not measured"
            self._seen = Sighting(self._site, message, {}, step)

    def _found(self, root: torch.Tensor, site: int, flags: list[tuple[str, Origin, torch.Tensor]]) -> None:
        """A loss is not finite."""
        bad = first_bad(root)
        made = Origin() if bad.node is None else origin(bad.node)
        is_nan = bool(torch.isnan(dense(root)).any())
        if root.grad_fn is not None and root.grad_fn.name().startswith("Mul") and bad.node in (None, root.grad_fn):
            return  # a loss that was scaled up too far: the gradient scaler skips the step
        what = "not a number" if is_nan else "infinite"
        if "without a graph" in bad.text and self._undefined is not None and self._undefined[2] == self.probe.steps:
            message = f"the loss is {what}: `{self._undefined[0]}` of a single value is NaN"
            self._seen = Sighting(self._undefined[1], message, {}, self.probe.steps)
            return
        message = f"the loss is {what}: {bad.text}{self._inside(made)}"
        self._seen = self._of_leaf(bad, flags) or Sighting(made.site or site, message, {}, self.probe.steps)
        self._search.look(is_nan and self._seen.site == site and bad.node is None)

    def _of_leaf(self, bad: Bad, flags: list[tuple[str, Origin, torch.Tensor]]) -> Sighting | None:
        """The load of a parameter that is not finite, or the gradient that made it so."""
        if not isinstance(bad.leaf, torch.nn.Parameter):
            return None
        name = self.models.named([bad.leaf]).removeprefix("1 parameter: ")
        site = self._loaded.get(id(bad.leaf))
        if site is not None and not self.probe.steps:
            message = f"{name} was loaded with values that are not finite, so the loss is not finite"
            return Sighting(site, message, {}, self.probe.steps)
        maker = _maker(flags)
        if maker is None or not maker[1].site:
            return None
        message = (
            f"{name} is not finite: in the previous step's backward, `{maker[0]}` computed the first gradient that is "
            f"not{self._inside(maker[1])}"
        )
        return Sighting(maker[1].site, message, {}, self._flagged)

    def _end_search(self) -> None:
        """The search for the origin of a NaN without a graph, in the calls after it, has ended."""
        if self._search.found is not None:
            name, made = self._search.found
            if self._evaluated is not None:
                message = (
                    f"{self._evaluated.message}: `{name}` computed the first value that is not{self._inside(made)}"
                )
                self._evaluated = Sighting(made.site, message, {}, self._evaluated.first_step)
            elif self._seen is not None:
                message = f"the loss is NaN: `{name}` computed the first value that is not, without a graph"
                self._seen = Sighting(made.site, message + self._inside(made), {}, self._seen.first_step)
        self._search.look(False)

    def _inside(self, made: Origin) -> str:
        """The module that ran, as the end of a sentence."""
        return "" if made.module is None else f", in {self.models.name(made.module)}"

    # -- evaluation

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.is_grad_enabled() or not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return
        if self._evaluated is not None:
            if self._search.found is not None:
                self._end_search()
            return
        if not output.is_cpu or not (isinstance(module, _Loss) or next(module.parameters(), None) is not None):
            return
        if self._seen is None and bool(torch.isnan(output).any()):
            kind = type(module).__name__
            given = any(isinstance(item, torch.Tensor) and not is_finite(item) for item in args)
            message = f"`{kind}` returns NaN values, without gradients"
            self._evaluated = Sighting(
                self.probe.sites.here(), message + (", for inputs that are not finite" if given else ""), {}, -1
            )
            self._search.look(not given)

    # -- gradients

    def before_step(self, optimizer: Any) -> None:
        if not self._asks:
            return
        gradients = self.probe.checks.gradients_of(optimizer)
        leaves = gradients.leaves
        if gradients.norms and all(map(math.isfinite, gradients.norms)):
            return  # the norm may overflow although the values do not
        bad = [leaf for leaf in leaves if not is_finite(leaf.grad)]
        if not bad:
            return
        weights = [leaf for leaf in bad if not is_finite(leaf)]
        made, self._flags = self.maker, []
        count = (
            f"the gradients of {len(bad):,} of {len(leaves):,} parameters are NaN or infinite, but the loss is finite"
        )
        if made is not None and not weights:
            operator, where = made
            count += f": they start in `{operator}`{self._inside(where)}"
            self._seen = Sighting(where.site or self._site, count, {"parameters": len(bad)}, self.probe.steps)
        else:
            self._seen = Sighting(self._site, count, {"parameters": len(bad)}, self.probe.steps)

    def _at_the_end(self) -> None:
        """The last backward may have made weights that are not finite, and no later loss would show it."""
        self._end_search()
        self._read_pending()
        leaves = [leaf for model in self.models for leaf in model.parameters() if leaf.is_cpu]
        bad = next((leaf for leaf in leaves if not is_finite(leaf)), None) if self._flags else None
        if bad is not None and self._seen is None:
            self._seen = self._of_leaf(Bad(leaf=bad), self._flags)

    def sightings(self) -> Iterator[Sighting]:
        if self.probe.finished or self.probe.budget.reason:
            self._at_the_end()
        for seen in (self._seen, self._evaluated):
            if seen is not None and seen.site:
                yield seen


class _Exit(Hook):
    """Wraps `sys.exit`."""

    def __call__(self, original: Callable[..., Any], *args: Any) -> Any:
        self._probe.checks.tell_one(NonfiniteValue, "leaves")
        return original(*args)


def _maker(flags: list[tuple[str, Origin, torch.Tensor]]) -> tuple[str, Origin] | None:
    """The operator that made the first gradient that is not finite in a backward."""
    return next(((name, where) for name, where, is_first in flags if bool(is_first)), None)


def _is_bad_loss(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.grad_fn is not None
        and value.numel() == 1
        and not math.isfinite(value.item())
    )


def _is_risky(node: Any) -> bool:
    """Whether the gradient of an operator may not be finite although all values are."""
    name = node.name()
    if not name.startswith(_RISKY) or name.startswith("LogSoftmax"):
        return False
    exponent = getattr(node, "_saved_exponent", None)
    return not (isinstance(exponent, (int, float)) and exponent >= 1)


class _GradientOf:
    """The hook of a node: whether it turns finite gradients into one that is not, without waiting for a GPU."""

    def __init__(self, flags: list[tuple[str, Origin, torch.Tensor]], name: str, made: Origin) -> None:
        self._flags, self._name, self._made = flags, name, made

    def __call__(self, given: Any, taken: Any) -> None:
        given, taken = ([item for item in items if item is not None] for items in (given, taken))
        if given and taken:
            bad = ~torch.stack([torch.isfinite(item).all() for item in given]).all()
            fine = torch.stack([torch.isfinite(item).all() for item in taken]).all()
            self._flags.append((self._name, self._made, bad & fine))
