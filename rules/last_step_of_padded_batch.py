"""The last step of sequences that are padded at their end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class LastStep(NamedTuple):
    """The code at `taken` selects the last step of sequences that `padded` pads."""

    taken: Site
    padded: Site


class LastStepOfPaddedBatch(Rule):
    """The code selects the last step of a batch that is padded at its end.

    ## What it does
    Finds `output[:, -1]` of recurrent layers and transformers whose input comes from `pad_sequence`, in the loop or in
    the `collate_fn` of its loader. This rule is a preview because a batch whose sequences all have one length has no
    padding.

    ## Why is this bad?
    `pad_sequence` pads at the end. For all but the longest sequence, the last step is padding. The model predicts from
    the state after many steps of zeros, and the result for a sample depends on the others in its batch.

    ## Example
    ```python
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pad_sequence

    def loss_of(rows, y):
        cells, head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)
        out, _ = cells(pad_sequence(rows, batch_first=True))
        return nn.functional.cross_entropy(head(out[:, -1]), y)
    ```

    Use instead:
    ```python
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pad_sequence

    def loss_of(rows, y):
        cells, head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)
        out, _ = cells(pad_sequence(rows, batch_first=True))
        last = torch.tensor([len(row) - 1 for row in rows])
        return nn.functional.cross_entropy(head(out[torch.arange(len(rows)), last]), y)
    ```

    ## References
    - [torch.nn.utils.rnn.pack_padded_sequence](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html),
      after which the hidden state is that of each sequence's own last step
    """

    code = "TL717"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"pad_sequence",), (b"-1",))
    calls = frozenset({"pad_sequence", "DataLoader"})

    def ask(self) -> Iterator[LastStep]:
        for value, padding in [] if self.model.is_test else self.model.layout.last_steps():
            if value.site is not None:
                yield LastStep(value.site, padding.site)

    def report_LastStep(self, found: LastStep) -> None:
        self.report(
            found.taken,
            "the sequences are padded at their end: for all but the longest, the last step is padding",
            related=[(found.padded, "they are padded here")],
            help="select the step at `length - 1` of each sequence, or pack the sequences",
        )
