"""Padding that counts as a class in the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import losses, masks
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.model.relations._padding import Calls, Padding
    from torchlint.syntax.python_ast import Site

_FUNCTIONS = ("cross_entropy", "nll_loss")
_MASK = LazyPattern(r"(?i)^(?:\w+_)?(?:attention|attn|pad|padding|token|text|input)_?masks?$")
"""Names of masks that are 0 for padding."""
_IGNORED = -100
"""The class that losses ignore by default."""
_MASKED = (b"-100", b"DataCollatorFor", b"IGNORE_", b"ignore_index", b"SFTTrainer", b"ignore_id", b"loss_mask")
"""Words in programs that exclude padding from the loss themselves."""


class PaddedTarget(NamedTuple):
    """The code at `padded` pads the targets of the loss at `loss`."""

    loss: Site
    padded: Site
    is_masked: bool = False
    """Whether the code multiplies the targets by a padding mask, so that padding has class 0."""


class PaddingInLoss(Rule):
    """Padding counts in the loss like any other class.

    ## What it does
    Finds `cross_entropy` without an `ignore_index` for targets that come from `pad_sequence`, or for targets
    multiplied by an `attention_mask`, so that padding gets the label 0. Also finds `labels` that are a copy of the
    `input_ids` of a tokenizer with `padding`. This rule is a preview because some programs learn to predict padding on
    purpose.

    ## Why is this bad?
    `cross_entropy` and the models of Hugging Face Transformers ignore only labels of -100. In a batch with one long
    sequence, most positions of the short ones are padding. The loss is small because padding is easy to predict, and
    the model learns less about the real tokens.

    ## Example
    ```python
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def loss_of(logits, rows):
        labels = pad_sequence(rows, batch_first=True)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    ```

    Use instead:
    ```python
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def loss_of(logits, rows):
        labels = pad_sequence(rows, batch_first=True, padding_value=-100)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    ```

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html):
      `ignore_index`
    """

    code = "TL715"
    category = Category.SUSPICIOUS
    preview = True
    triggers = (
        (b"pad_sequence", b"padding", b"mask"),
        (b"cross_entropy", b"CrossEntropyLoss", b"nll_loss", b"NLLLoss", b"labels"),
    )
    calls = frozenset({"pad_sequence", "DataLoader", "cross_entropy", "CrossEntropyLoss"})

    def ask(self) -> Iterator[PaddedTarget]:
        if self.model.is_test:
            return
        masked_at: dict[Site, Site] = {}
        for event, loss, calls in self.model.layout.computed():
            given = losses.operands(loss) if losses.loss_function(loss) in _FUNCTIONS else ()
            if len(given) > 1 and losses.is_mean(loss, self.model.tree):
                padding = self.model.layout.padding_of(given[1], calls)
                masked = _masked(given[1])
                if padding is not None and self._counts(padding, loss, calls):
                    yield PaddedTarget(event.site, padding.site)
                elif masked is not None and loss.site is not None and self._ignored(loss, calls) == _IGNORED:
                    masked_at[loss.site] = masked
        yield from (PaddedTarget(site, masked, is_masked=True) for site, masked in masked_at.items())
        if not self.model.mentions(_MASKED):
            for labels, padded in self.model.layout.copied_labels():
                yield PaddedTarget(labels, padded)

    def _counts(self, padding: Padding, loss: values.Tensor, calls: Calls) -> bool:
        """Whether the loss surely ignores no class, or a class other than the padding."""
        ignored, number = self._ignored(loss, calls), padding.number
        try:
            written = 0 if number is None else ast.literal_eval(number)
        except ValueError:  # inputs are not -100: an embedding would raise
            written = None if self.model.layout.is_fed(losses.operands(loss)[0], padding, calls) else _IGNORED
        return ignored is not None and ignored != written and (written is not None or ignored == _IGNORED)

    def _ignored(self, loss: values.Tensor, calls: Calls) -> int | None:
        """The class that a loss ignores, or None if it is unknown or classes have weights."""
        made = values.resolved(loss.parents[0]) if isinstance(loss, values.ModuleOutput) else loss
        known = self.model.program.observations.calls.get(made)
        if known is None or known[1].starred or "weight" in known[1].keywords:
            return None
        given = known[1].keywords.get("ignore_index")
        value = values.resolved(given) if given is not None else None
        if isinstance(value, values.Parameter) and calls and value.label in calls[-1]:
            value = values.resolved(calls[-1][value.label])
        if value is None:
            return _IGNORED
        number = value.constant if isinstance(value, values.Plain) and value.is_literal else None
        return number if isinstance(number, int) else None

    def report_PaddedTarget(self, found: PaddedTarget) -> None:
        self.report(
            found.loss,
            "padding counts in this loss like any other label: the model learns to predict padding",
            related=[(found.padded, "this gives padding class 0" if found.is_masked else "this pads the sequences")],
            help="set the labels of padding to -100, or pass `ignore_index` to the loss",
        )


def _masked(target: values.Value) -> Site | None:
    """The product of a target and a padding mask."""
    product = masks.adapted(target)
    if not isinstance(product, values.Tensor) or product.op != operators.MUL or len(product.parents) != 2:
        return None
    is_masked = any(_MASK.search(masks.adapted(item).label or "") for item in product.parents)
    return product.site if is_masked else None
