"""Square roots of operands that may be 0, protected too late or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events, values
from torchlint.model.queries import masks, numbers
from torchlint.model.relations import domain
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.index import FileIndex
    from torchlint.model.relations.domain import Domains
    from torchlint.syntax.python_ast import Site
_BOUNDS = frozenset({"clamp", "clamp_min"})
_RESHAPING = frozenset({"unsqueeze", "view", "reshape", "expand", "squeeze"})
_HINGES = frozenset({"relu", "clamp", "clamp_min", "softplus"})
_BEHIND = 4
"""Operators between a root and the number added to it."""


class UnsafeRoot(NamedTuple):
    """The root at `site` has an infinite gradient at 0; `late` is where a bound is added after it."""

    site: Site
    late: Site | None
    hinge: Site | None = None
    """Where a hinge `relu(margin - root)` uses the root, so that its gradient is not 0 at 0."""
    reason: str = ""
    is_sure: bool = True


class RootOfZero(Rule):
    """The gradient of a square root is NaN where its operand is 0.

    ## What it does
    Finds square roots in the graph of a loss whose operand may be 0:

    - The operand is a sum of squares, an absolute value or a variance, and the code protects the root instead of the
      operand: `sqrt(x) + eps`, or a clamp of the root.
    - The operand holds the distances between all rows of one tensor, so its diagonal is 0.
    - The operand is the output of a ReLU, which is 0 for negative inputs.
    - The operand is `1 - cosine ** 2`, where the cosine is a product of normalized vectors.
    - Reported only with `--preview`: a hinge that subtracts the root of a sum of squares from a margin,
      `relu(margin - distance)`, and roots in the `forward` of a loss if torchlint cannot tell whether its inputs
      require gradients.

    ## Why is this bad?
    The gradient of `sqrt` at 0 is infinite, and the gradient of its operand is 0. Their product is NaN. A single zero
    row turns all weights into NaN in that step. A bound after the root protects a division, but not the gradient.
    Rounding can make a cosine larger than 1, so `1 - cosine ** 2` is negative, and its root is NaN.

    ## Example
    ```python
    import torch

    def train(model: torch.nn.Linear, x, optimizer):
        out = model(x)
        norm = torch.sqrt(out.pow(2).sum(-1, keepdim=True)) + 1e-8
        loss = (out / norm).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model: torch.nn.Linear, x, optimizer):
        out = model(x)
        norm = torch.sqrt(out.pow(2).sum(-1, keepdim=True) + 1e-8)
        loss = (out / norm).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if this line computes the first NaN or infinity of the run.

    ## References
    - [torch.autograd: gradients for functions that are not differentiable](https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions)
    """

    code = "TL520"
    category = Category.CORRECTNESS
    triggers = ((b"sqrt", b"0.5"),)
    calls = frozenset({"sqrt"})

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.names_one({operators.SQRT}) or index.has_operator(ast.Pow) or index.names_one({operators.POW})

    def ask(self) -> Iterator[UnsafeRoot]:
        seen = set[object]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                for root, calls in self._roots(event.value):
                    if root.site is not None and root.site not in seen:
                        for unsafe in self._unsafe(root, calls, root.site):
                            seen.add(unsafe.site)
                            yield unsafe

    def _roots(self, value: values.Tensor) -> Iterator[tuple[values.Tensor, masks.Calls]]:
        """The roots with a graph that an event computes, also in the `forward` of a module that it calls."""
        for root, calls in masks.computed_in_calls(value):
            if domain.is_root(root) and not self.model.domain.is_detached(root):
                tracked = self.model.tracking.tracked_in_calls(root, calls)
                if tracked is values.Answer.YES or (tracked is values.Answer.UNKNOWN and self._is_in_loss(root)):
                    yield root, calls

    def _is_in_loss(self, root: values.Tensor) -> bool:
        """Whether the `forward` of a loss computes a root."""
        method = (
            self.model.definitions.method_around(self.model.tree.node(root.site)) if root.site is not None else None
        )
        owner = method.owner if method is not None else None
        return method is not None and method.name == "forward" and owner is not None and "Loss" in owner.name

    def _unsafe(self, root: values.Tensor, calls: masks.Calls, site: Site) -> Iterator[UnsafeRoot]:
        is_sure = self.model.tracking.tracked_in_calls(root, calls) is values.Answer.YES
        numbers = self.model.domain.under_root(root)
        if _is_sine(root, self.model.domain, self.model):
            yield UnsafeRoot(site, None, reason="rounding makes the cosine 1 or more", is_sure=is_sure)
        elif self.model.domain.is_rectified(masks.argument(root.parents[0], calls)):
            yield UnsafeRoot(site, None, reason="a ReLU outputs 0 for negative inputs", is_sure=is_sure)
        elif numbers is not None and numbers.zero is not values.Answer.NO:
            late = _late_bound(root, self.model.domain) if numbers.kind is domain.Kind.NON_NEGATIVE else None
            hinge = _hinge(root, self.model.domain) if numbers.kind is domain.Kind.NON_NEGATIVE else None
            if late is not None or numbers.zero is values.Answer.YES:
                reason = "the small number is added after the root" if late else "the operand is 0 on the diagonal"
                yield UnsafeRoot(site, late, reason=reason, is_sure=is_sure)
            elif hinge is not None:
                yield UnsafeRoot(site, None, hinge, "the hinge `relu(margin - root)` is active there", is_sure=False)

    def report_UnsafeRoot(self, unsafe: UnsafeRoot) -> None:
        places = [(unsafe.late, "too late for the gradient"), (unsafe.hinge, "this hinge uses the root")]
        self.report(
            unsafe.site,
            f"gradients become infinite or NaN where the operand of this square root is 0: {unsafe.reason}",
            related=[(place, text) for place, text in places if place is not None],
            help="add a small number, such as `1e-12`, inside the root",
            confidence=Confidence.HIGH if unsafe.is_sure else Confidence.LOW,
        )


def _late_bound(root: values.Tensor, domain: Domains) -> Site | None:
    """The place where a small number is added to a root or bounds it from below."""
    value = root
    for _ in range(_BEHIND):
        users = domain.users(value)
        for user in users:
            if user.op == operators.ADD and any(map(domain.is_epsilon, user.parents)):
                return user.site
            bound = domain.lower_bound(user) if user.op in _BOUNDS else None
            if bound is not None and domain.is_epsilon(bound):
                return user.site
        following = [user for user in users if user.op in _RESHAPING]
        if len(following) != 1:
            return None
        value = following[0]
    return None


def _is_sine(root: values.Tensor, domain: Domains, model: Model) -> bool:
    """Whether a root is that of `1 - cosine ** 2`, where the cosine is a product of normalized vectors."""
    operand = values.resolved(root.parents[0])
    if not isinstance(operand, values.Tensor) or operand.op not in (operators.SUB, operators.RSUB):
        return False
    first, square = (values.resolved(item) for item in (operand.parents[0], operand.parents[-1]))
    if operand.op == operators.RSUB:
        first, square = square, first
    if numbers.of(first, model.program) != 1 or not isinstance(square, values.Tensor) or not square.parents:
        return False
    factors = [values.resolved(item) for item in square.parents]
    is_power = square.op == operators.POW and len(factors) > 1 and numbers.of(factors[1], model.program) == 2
    is_square = square.op == operators.SQUARE or (square.op == operators.MUL and factors[0] is factors[-1])
    return (is_power or is_square) and domain.is_similarity(factors[0])


def _hinge(root: values.Tensor, domain: Domains) -> Site | None:
    """The _hinge of a number minus a root."""
    for user in domain.users(root):
        first, last = (values.resolved(user.parents[index]) for index in (0, -1))
        subtracted, margin = (first, last) if user.op == operators.RSUB else (last, first)
        if user.op not in (operators.SUB, operators.RSUB) or subtracted is not root:
            continue
        hinges = [item for item in domain.users(user) if item.op in _HINGES]
        if hinges and not isinstance(margin, values.Tensor):
            return hinges[0].site
    return None
