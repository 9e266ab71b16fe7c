"""Recurrent and attention layers that treat the samples of a batch as time steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class BatchAsTime(NamedTuple):
    """The layer made at `layer` treats a batch, of `loader` or of a convolution, as a sequence at `call`."""

    call: Site
    layer: Site | None
    loader: Site | None


class MissingBatchFirst(Rule):
    """A recurrent or attention layer treats the samples of a batch as time steps.

    ## What it does
    Finds `LSTM`, `GRU`, `RNN`, `TransformerEncoder`, `TransformerEncoderLayer` and `MultiheadAttention` without
    `batch_first=True`. Their input has samples in the first dimension and time steps in the second. torchlint knows the
    sizes where a `DataLoader` iterates over a `TensorDataset` or a subset of one, and after a convolution.

    ## Why is this bad?
    Without `batch_first=True`, the first dimension is time. A recurrent layer carries its state from one sample to the
    next, and an attention layer attends across samples. It treats each time step as a separate sequence. There is no
    error. The model learns nothing about time, and its predictions depend on the other samples of the batch.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    lstm = torch.nn.LSTM(8, 16)
    loader = DataLoader(TensorDataset(torch.randn(100, 20, 8), torch.randn(100)), batch_size=10)
    for x, y in loader:
        out, _ = lstm(x)
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    lstm = torch.nn.LSTM(8, 16, batch_first=True)
    loader = DataLoader(TensorDataset(torch.randn(100, 20, 8), torch.randn(100)), batch_size=10)
    for x, y in loader:
        out, _ = lstm(x)
    ```

    ## References
    - [torch.nn.LSTM](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html): `batch_first`
    """

    code = "TL712"
    category = Category.CORRECTNESS
    triggers = (
        (b"LSTM", b"GRU", b"RNN", b"TransformerEncoder", b"MultiheadAttention"),
        (b"TensorDataset", b"Conv"),
    )
    calls = frozenset("LSTM GRU RNN TransformerEncoderLayer TransformerEncoder MultiheadAttention".split())

    def ask(self) -> Iterator[BatchAsTime]:
        for call, (layer, loader) in self.model.shapes.batches_as_time.items():
            yield BatchAsTime(call, layer.site, loader.site if loader is not None else None)

    def report_BatchAsTime(self, found: BatchAsTime) -> None:
        places = (found.layer, "the layer is made here"), (found.loader, "the loader is made here")
        self.report(
            found.call,
            "the layer treats the samples of a batch as time steps, because it lacks `batch_first=True`",
            related=[(site, text) for site, text in places if site is not None],
            help="make the layer with `batch_first=True`, or transpose its input",
        )
