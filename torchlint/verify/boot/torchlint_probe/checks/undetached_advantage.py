"""The advantage in a policy loss keeps the critic's graph, so the policy loss also trains the critic.

For each product in the graph of a loss, the check asks whether one factor comes from `log_prob` of a distribution, and
whether the other factor is a difference that contains the output of a network. It reports a problem if, in at least
three backward passes, the same loss also contains a regression of this output, as the critic's own loss does. Detach
the output in the difference.

Without the regression, the check reports nothing, because methods with a learned control variate need this gradient.

Source: Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning" (2016): the policy gradient holds the
advantage constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.distributions import Distribution

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook
from torchlint_probe.operators import origin

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_KEY = "torchlint-log-prob"
_LINEAR = tuple(
    f"{name}Backward"
    for name in (
        "Add Sub Rsub Neg Mul Div Mean Sum Std View UnsafeView ReshapeAlias Squeeze Unsqueeze Stack Cat Select Slice "
        "Index Expand Permute Transpose T Clone Alias ToCopy Flip"
    ).split()
)
"""Prefixes of operators between the critic's output and the advantage."""
_OF_RATIOS = (*_LINEAR, "ExpBackward", "ClampBackward", "MinimumBackward")
"""The same between the log-probability and the factor of the product."""
_REGRESSIONS = ("PowBackward", "MseLoss", "SmoothL1Loss", "HuberLoss", "AbsBackward")
_NEAR = 400
_GRAPHS = 3
_MOST_GRAPHS = 6


class UndetachedAdvantage(Check):
    """Searches graphs that contain a log-probability."""

    name = "undetached-advantage"
    code = "TL315"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._has_log_prob = False
        self._graphs = 0
        self._wrong: dict[int, int] = {}
        """By site of the difference, the number of graphs in which it keeps the critic's graph."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for kind in _kinds(Distribution):
            if "log_prob" in vars(kind):
                hooks.listen(kind, "log_prob", _Hook(probe))

    def chosen(self, result: Any) -> None:
        """A distribution has returned log-probabilities."""
        if isinstance(result, torch.Tensor) and result.grad_fn is not None and self._graphs < _MOST_GRAPHS:
            result.grad_fn.metadata[_KEY] = True
            self._has_log_prob = True

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        if not self._has_log_prob or self._graphs >= _MOST_GRAPHS:
            return
        self._has_log_prob = False
        self._graphs += 1
        graph = self.probe.checks.graph_of(roots)
        regressed = {end for node in graph if node.name().startswith(_REGRESSIONS) for end in _ends(node)}
        found = {origin(node).site for product in graph for node in _differences(product, regressed)}
        for place in found:
            self._wrong[place] = self._wrong.get(place, 0) + 1

    def sightings(self) -> Iterator[Sighting]:
        for site, graphs in list(self._wrong.items()):
            if site and graphs == self._graphs >= _GRAPHS:
                message = (
                    f"in {graphs:,} of {graphs:,} losses, this factor of a log-probability keeps the critic's graph: "
                    "the policy loss trains it, too"
                )
                yield Sighting(site, message, {"losses": graphs}, 0)


class _Hook(Hook):
    """Wraps `log_prob`."""

    def __call__(self, original: Callable[..., Any], distribution: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(distribution, *args, **kwargs)
        if self._probe.looking:
            self._probe.checks.tell_one(UndetachedAdvantage, "chosen", result)
        return result


def _kinds(kind: type) -> Iterator[type]:
    yield kind
    for sub in kind.__subclasses__():
        yield from _kinds(sub)


def _differences(product: Any, regressed: set[Any]) -> Iterator[Any]:
    """The innermost differences in one factor that contain an output among `regressed`, beside a log-probability."""
    factors = [node for node, _ in product.next_functions] if product.name().startswith("MulBackward") else []
    if len(factors) != 2 or None in factors:
        return
    for chosen, advantage in (factors, factors[::-1]):
        if _is_of_log_prob(chosen) and not _is_of_log_prob(advantage):
            found = [node for node in _linear(advantage) if _is_difference(node) and regressed & _ends(node)]
            yield from (
                node for node in found if not any(other in found for other in _linear(node) if other is not node)
            )


def _is_of_log_prob(node: Any) -> bool:
    return any(_KEY in item.metadata for item in _linear(node, _OF_RATIOS))


def _is_difference(node: Any) -> bool:
    return bool(node.name().startswith(("SubBackward", "RsubBackward")))


def _linear(node: Any, names: tuple[str, ...] = _LINEAR) -> Iterator[Any]:
    """The node, and those behind it as far as operators have these names."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < _NEAR:
        item = waiting.pop()
        yield item
        if item.name().startswith(names):
            inner = [following for following, _ in item.next_functions if following is not None]
            waiting += [following for following in inner if following not in seen]
            seen.update(inner)


def _ends(node: Any) -> set[Any]:
    """The first nodes behind a node that are not linear: those of layers, or of leaves."""
    inner = [following for following, _ in node.next_functions if following is not None]
    return {end for item in inner for end in _linear(item) if not end.name().startswith(_LINEAR)}
