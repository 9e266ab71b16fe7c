"""Advantages that multiply a log-probability and keep the critic's graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, lineage, module_values, values
from torchlint.pytorch import operators, triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_WEIGHING = frozenset({operators.MUL, operators.DIV})
_LINEAR = frozenset("add sub mul div neg to squeeze unsqueeze view reshape float stack cat clone getitem".split())
"""Operators between the critic's value and the advantage."""


_REDUCING = frozenset("sum mean".split())
_LOG_PROB = "log_prob"
"""The method of distributions."""
_LOG_PROBS = frozenset({_LOG_PROB})
_CHOOSING = frozenset({"gather", "take_along_dim"})
_MOST = 32
"""The largest number of values analyzed for one answer."""


class CriticInPolicyLoss(NamedTuple):
    """A product of a log-probability and an advantage whose graph contains the output `critic`."""

    product: values.Tensor
    critic: values.Value
    backward: events.Backward


class UndetachedAdvantage(Rule):
    """The advantage in a policy loss keeps the critic's graph.

    ## What it does
    Finds products of a `log_prob(...)` and a difference, in a loss on which the code calls `backward`. The difference
    contains the output of a network, and the code does not detach this output.

    This rule is a preview because some methods need that gradient, such as those that train a control variate.

    ## Why is this bad?
    The policy loss also trains the critic. The critic learns values that make the policy loss small, instead of
    returns.

    ## Example
    ```python
    import torch
    from torch.distributions import Categorical

    def update(actor, critic, optimizer, batches):
        for state, action, gain in batches:
            value = critic(state)
            advantage = gain - value
            policy_loss = -(Categorical(logits=actor(state)).log_prob(action) * advantage).mean()
            loss = policy_loss + (gain - value).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch.distributions import Categorical

    def update(actor, critic, optimizer, batches):
        for state, action, gain in batches:
            value = critic(state)
            advantage = gain - value.detach()
            policy_loss = -(Categorical(logits=actor(state)).log_prob(action) * advantage).mean()
            loss = policy_loss + (gain - value).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.distributions: score function](https://docs.pytorch.org/docs/stable/distributions.html#score-function)
    """

    code = "TL315"
    category = Category.SUSPICIOUS
    preview = True
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[CriticInPolicyLoss]:
        done: set[values.Value] = set()
        for trace in self.model.program.traces:
            for backward in trace.of(events.Backward) if not self.model.program.tests(trace) else ():
                for product in self._products(backward):
                    critic = self._critic(product)
                    if critic is not None and product not in done:
                        done.add(product)
                        yield CriticInPolicyLoss(product, critic, backward)

    def _products(self, backward: events.Backward) -> Iterator[values.Tensor]:
        """The products in the graph of a loss."""
        graph = self.model.tracking.pass_through(backward.loss, carried=False)
        found = (value for value in graph if isinstance(value, values.Tensor) and value.op in _WEIGHING)
        yield from sorted(found, key=lambda value: value.order)

    def _critic(self, product: values.Tensor) -> values.Value | None:
        """The network output behind an advantage, apart from the log-probability that it multiplies."""
        for factor, other in (product.parents, product.parents[::-1]) if len(product.parents) == 2 else ():
            if _is_log_probability(factor):
                return self._subtracted(values.resolved(other))
        return None

    def _subtracted(self, advantage: values.Value) -> values.Value | None:
        """A network output with a graph in a difference."""
        if self.model.tracking.tracked(advantage) is not values.Answer.YES:
            return None
        near = lineage.ancestry([advantage], _operands)
        if not any(isinstance(item, values.Tensor) and item.op == operators.SUB for item in near):
            return None
        outputs = (item for item in near if module_values.is_forward(item) or isinstance(item, values.Component))
        tracked = self.model.tracking.tracked
        return next((item for item in outputs if tracked(item) is values.Answer.YES), None)

    def report_CriticInPolicyLoss(self, found: CriticInPolicyLoss) -> None:
        if found.product.site is None or found.critic.site is None:
            return
        self.report(
            found.product.site,
            "the advantage keeps the critic's graph: the policy loss trains the critic too",
            related=[(found.critic.site, "the critic's value"), (found.backward.site, "`backward` starts here")],
            help="detach the value where it multiplies the log-probability",
        )


def _is_log_probability(value: values.Value) -> bool:
    """Whether a value is one or several log-probabilities of a distribution.

    Their sign or shape may differ. They may be summed, also in a loop, be one of a network's results, or be chosen from
    those of all actions.
    """
    stack, seen = [value], set[values.Value]()
    is_chosen = False
    while stack:
        item = values.resolved(stack.pop())
        if item in seen:
            continue
        seen.add(item)
        parts = _parts(item)
        op = item.op if isinstance(item, values.Tensor) else ""
        is_chosen = is_chosen or op in _CHOOSING
        is_one = _is_log_prob(item) or (is_chosen and op == "log_softmax")
        if len(seen) > _MOST or (not parts and not is_one):
            return False
        stack.extend(parts)
    return True


def _is_log_prob(value: values.Value) -> bool:
    called = value.callee.label if isinstance(value, values.CallResult) and value.callee is not None else ""
    return called == _LOG_PROB or (isinstance(value, values.Tensor) and value.op in _LOG_PROBS)


def _parts(value: values.Value) -> Sequence[values.Value]:
    """The values that must all be log-probabilities for a value to be one."""
    if isinstance(value, values.Component):
        return module_values.returned_parts(value)
    if isinstance(value, values.Container):
        return value.elements()
    if isinstance(value, values.Phi):
        return [item for item in map(values.resolved, value.parents) if not _is_start(item)]
    if isinstance(value, values.Tensor) and value.op in _CHOOSING:
        return value.parents[:1]
    is_joined = isinstance(value, values.Tensor) and value.op in _LINEAR | _REDUCING
    joined = [item for item in value.parents if not isinstance(item, values.Plain)] if is_joined else []
    return joined if len(joined) == 1 or (is_joined and getattr(value, "op", "") == operators.ADD) else ()


def _is_start(value: values.Value) -> bool:
    """Whether a sum may start at a value: a number, or a new tensor."""
    return isinstance(value, (values.Plain, values.NewTensor))


def _operands(value: values.Value) -> tuple[values.Value, ...]:
    value = values.resolved(value)
    is_linear = isinstance(value, values.Tensor) and value.op in _LINEAR
    return tuple(map(values.resolved, value.parents)) if is_linear or isinstance(value, values.Phi) else ()
