"""Recurrent layers and surrounding code that disagree about which dimension is time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import sequences
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_OF_SAMPLES = LazyPattern(r"(?i)support|proto|shot|episode")
"""Names of batches whose mean is of use."""


class Swapped(NamedTuple):
    """The code at `site` treats dimension `steps` as time, but the layer at `layer` uses the other one."""

    site: Site
    layer: Site
    steps: int
    name: str


class StepsForSamples(Rule):
    """A sequence layer and the code around it use different dimensions for time.

    ## What it does
    Finds `nn.LSTM`, `nn.GRU`, `nn.RNN` and `nn.TransformerEncoder` where the code reads the output as if time were the
    other dimension:

    - `out[:, -1]` or `out.mean(dim=1)` without `batch_first=True`
    - `out[-1]` or `out.mean(dim=0)` with `batch_first=True`

    Also finds positional encodings that are added along the samples: `x + pe[:x.size(0)]` before a layer with
    `batch_first=True`.

    `missing-batch-first` reports layers whose batches come from a loader that the program makes.

    ## Why is this bad?
    There is no error, but the model trains on mixed-up dimensions. The state moves from sample to sample instead of
    from step to step, or one sample's output serves as the prediction for all samples. With positional encodings, each
    sample of the batch gets a position and the steps get none.

    ## Example
    ```python
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32)
            self.head = nn.Linear(32, 2)

        def forward(self, x):
            out, _ = self.lstm(x)
            return self.head(out[:, -1])
    ```

    Use instead:
    ```python
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32, batch_first=True)
            self.head = nn.Linear(32, 2)

        def forward(self, x):
            out, _ = self.lstm(x)
            return self.head(out[:, -1])
    ```

    ## References
    - [torch.nn.LSTM](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html): `batch_first`
    """

    code = "TL719"
    category = Category.CORRECTNESS
    triggers = ((b"LSTM", b"GRU", b"RNN", b"TransformerEncoder"),)
    calls = frozenset({"LSTM", "GRU", "RNN", "TransformerEncoder", "TransformerEncoderLayer"})

    def ask(self) -> Iterator[Swapped]:
        self._sequences = sequences.Sequences(self.model.program)
        seen = set[Site]()
        for _, value, _ in [] if self.model.is_test else self.model.layout.computed():
            for found in self._swapped(value):
                if found.site not in seen:
                    seen.add(found.site)
                    yield found

    def _swapped(self, value: values.Tensor) -> Iterator[Swapped]:
        is_first = self._sequences.samples_first(value)
        if is_first is not None and isinstance(value, values.ModuleOutput):
            claimed = self._sequences.positions(value.parents[1])
            if claimed is not None and claimed[1] == (0 if is_first else 1):
                yield self._found(claimed[0], value, claimed[1])
            return
        claimed = self._sequences.steps_of(value)
        layer = self._sequences.layer(value.parents[0]) if claimed is not None and not self._is_mean(value) else None
        is_first = self._sequences.samples_first(layer) if layer is not None else None
        if layer is not None and claimed is not None and is_first is not None and claimed[1] == (0 if is_first else 1):
            if not self._sequences.is_single(layer.parents[1]) and layer.site not in self.model.shapes.batches_as_time:
                yield self._found(claimed[0], layer, claimed[1])

    def _is_mean(self, value: values.Tensor) -> bool:
        """Whether a mean is over samples on purpose, as that of a prototype."""
        around = self.model.definitions.function_around(self.model.tree.node(value.site)) if value.site else None
        is_mean = value.op == operators.MEAN and around is not None
        return is_mean and around is not None and bool(_OF_SAMPLES.search(" ".join(around.parameters)))

    def _found(self, site: Site, layer: values.ModuleOutput, steps: int) -> Swapped:
        module = values.resolved(layer.parents[0])
        name = module.name.rpartition(".")[2] if isinstance(module, values.Module) else ""
        assert layer.site is not None
        return Swapped(site, module.site or layer.site, steps, name)

    def report_Swapped(self, found: Swapped) -> None:
        other = "samples first" if found.steps == 0 else "time steps first"
        self.report(
            found.site,
            f"this code treats dimension {found.steps} as time, but `{found.name}` expects {other}",
            related=[(found.layer, "the layer is made here")],
            help="make both agree: `batch_first=True` for (samples, steps, features)",
        )
