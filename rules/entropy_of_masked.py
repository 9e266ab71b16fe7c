"""Products of probabilities that a mask sets to 0 with their logarithms, which are minus infinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.relations import domain
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_GUARDS = frozenset({"where", "masked_fill", "nan_to_num", "nansum", operators.GETITEM, "masked_select"})


class NanProduct(NamedTuple):
    """The product at `site` is 0 times minus infinity, where the mask at `masked` applies."""

    site: Site
    masked: Site


class EntropyOfMasked(Rule):
    """The entropy of a softmax that a mask of `-inf` sets to 0 is NaN.

    ## What it does
    Finds products of probabilities and their logarithms, `p * log_p`, where both come from logits that a mask sets to
    minus infinity.

    ## Why is this bad?
    The probability of a masked entry is exactly 0, and its logarithm minus infinity. The product is NaN, and so are the
    entropy, the loss and all gradients.

    ## Example
    ```python
    import torch.nn.functional as F

    def entropy(logits, allowed):
        masked = logits.masked_fill(~allowed, float("-inf"))
        log_p = F.log_softmax(masked, dim=-1)
        return -(log_p.exp() * log_p).sum(-1)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def entropy(logits, allowed):
        masked = logits.masked_fill(~allowed, -1e9)
        log_p = F.log_softmax(masked, dim=-1)
        return -(log_p.exp() * log_p).sum(-1)
    ```

    ## References
    - [torch.special.entr](https://docs.pytorch.org/docs/stable/special.html#torch.special.entr), which is 0 at 0
    """

    code = "TL524"
    category = Category.CORRECTNESS
    triggers = ((b"oftmax",), (b"inf",))
    calls = frozenset({"softmax", "log_softmax"})

    def ask(self) -> Iterator[NanProduct]:
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                product = event.value
                if product.op == operators.MUL and len(product.parents) == 2 and not self._is_guarded(product):
                    found = [self.model.domain.of(item) for item in product.parents]
                    masks = {item.kind: item.masked for item in found if item is not None and item.masked is not None}
                    masked = masks.get(domain.Kind.PROBABILITIES)
                    if masked is not None and masked == masks.get(domain.Kind.LOGARITHMS):
                        yield NanProduct(event.site, masked)

    def _is_guarded(self, product: values.Tensor) -> bool:
        """Whether something replaces the NaN. It comes too late only for gradients."""
        return any(user.op in _GUARDS for user in self.model.domain.users(product))

    def report_NanProduct(self, found: NanProduct) -> None:
        self.report(
            found.site,
            "this product is NaN where the mask applies: the probability is 0, and its logarithm minus infinity",
            related=[(found.masked, "the logits are set to minus infinity here")],
            help="fill with a large negative number, such as `-1e9`, or replace the logarithms before the product",
        )
