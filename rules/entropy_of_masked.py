"""Products of a probability and its logarithm, where a mask sets the probability to 0."""

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
    """The product at `site` computes 0 times minus infinity where the mask at `masked` applies."""

    site: Site
    masked: Site


class EntropyOfMasked(Rule):
    """An entropy is NaN where `-inf` masks the logits of its softmax.

    ## What it does
    Finds products of probabilities and their logarithms, `p * log_p`, where a mask sets the logits of both to minus
    infinity.

    ## Why is this bad?
    A masked entry has probability 0, and its logarithm is minus infinity. Their product is NaN. The entropy, the loss
    and all gradients then become NaN too.

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

    ## What verify shows
    `torchlint verify` confirms the finding if this line computes the first NaN or infinity of the run.

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
        """Whether some code replaces the NaN. Such code protects the entropy, but not the gradients."""
        return any(user.op in _GUARDS for user in self.model.domain.users(product))

    def report_NanProduct(self, found: NanProduct) -> None:
        self.report(
            found.site,
            "this product is NaN where the mask applies: it multiplies probability 0 by minus infinity",
            related=[(found.masked, "the logits are set to minus infinity here")],
            help="fill with a large negative number such as `-1e9`, or replace the logarithms before the product",
        )
