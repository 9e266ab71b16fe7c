"""Sequences whose samples are taken for steps: a layer and what surrounds it disagree about the dimensions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
_ENCODERS = frozenset({"TransformerEncoder", "TransformerEncoderLayer"})
_POOLING = frozenset({operators.MEAN, operators.SUM, "max", "amax"})
_PASSING = frozenset({"dropout", "relu", "contiguous", "tanh"})


class Swapped(NamedTuple):
    """At `site` dimension `steps` is taken for the steps; the layer at `layer` takes the other one for them."""

    site: Site
    layer: Site
    steps: int
    name: str


class StepsForSamples(Rule):
    """A layer of sequences and the code around it take different dimensions for time.

    ## What it does
    Finds `nn.LSTM`, `nn.GRU`, `nn.RNN` and `nn.TransformerEncoder` whose output is read as if time were the other
    dimension: `out[:, -1]`, `out.mean(dim=1)` without `batch_first=True`, `out[-1]`, `out.mean(dim=0)` with it. Finds as
    well positional encodings that are added along the samples: `x + pe[:x.size(0)]` before a layer with
    `batch_first=True`.

    ## Why is this bad?
    Nothing raises. The state goes from sample to sample instead of from step to step, predictions are those of one
    sample for all, or each sample of the batch gets a position of its own and the steps get none.

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
    calls = _RECURRENT | _ENCODERS

    def ask(self) -> Iterator[Swapped]:
        seen = set[Site]()
        for _, value, _ in [] if self.model.is_test else self.model.layout.computed():
            for found in self._swapped(value):
                if found.site not in seen:
                    seen.add(found.site)
                    yield found

    def _swapped(self, value: values.Tensor) -> Iterator[Swapped]:
        is_first = self._samples_first(value)
        if is_first is not None and isinstance(value, values.ModuleOutput):
            claimed = self._positions(value.parents[1])
            if claimed is not None and claimed[1] == (0 if is_first else 1):
                yield self._found(claimed[0], value, claimed[1])
            return
        claimed = self._steps_of(value)
        layer = self._layer(value.parents[0]) if claimed is not None else None
        is_first = self._samples_first(layer) if layer is not None else None
        if layer is not None and claimed is not None and is_first is not None and claimed[1] == (0 if is_first else 1):
            if not self._is_single(layer.parents[1]):
                yield self._found(claimed[0], layer, claimed[1])

    def _found(self, site: Site, layer: values.ModuleOutput, steps: int) -> Swapped:
        module = values.resolved(layer.parents[0])
        name = module.name.rpartition(".")[2] if isinstance(module, values.Module) else ""
        assert layer.site is not None
        return Swapped(site, module.site or layer.site, steps, name)

    def _samples_first(self, value: values.Value) -> bool | None:
        """Whether a layer of sequences has samples first, where a value is its output; None: no such layer."""
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        if not isinstance(module, values.Module) or module.info is not None or len(value.parents) < 2:
            return None
        name = module.name.removeprefix("torch.nn.")
        made = self.model.program.observations.calls.get(module)
        if name == "TransformerEncoder" and made is not None:
            inner = made[1].get(0, "encoder_layer")
            made = self.model.program.observations.calls.get(values.resolved(inner)) if inner is not None else None
        elif name not in _RECURRENT | _ENCODERS:
            return None
        if made is None or made[1].starred:
            return None
        flag = made[1].keywords.get("batch_first")
        if flag is None:
            is_short = len(made[1].positional) <= (3 if name in _RECURRENT else 5)
            return False if is_short else None
        flag = values.resolved(flag)
        return flag.constant if isinstance(flag, values.Plain) and isinstance(flag.constant, bool) else None

    def _steps_of(self, value: values.Tensor) -> tuple[Site, int] | None:
        """The dimension that an operation takes for steps: the last one is taken, or all are averaged."""
        if value.site is None or not value.parents:
            return None
        node = self.model.tree.node(value.site)
        if value.op == operators.GETITEM and isinstance(node, ast.Subscript):
            index = _index_of_last(node)
            if index is None and ast.unparse(node.slice) in ("(:, 0)", ":, 0", "(:, 0, :)", ":, 0, :"):
                is_encoder = isinstance(values.resolved(value.parents[0]), values.ModuleOutput)
                return (value.site, 1) if is_encoder else None  # the token of the class
            return (value.site, index) if index is not None else None
        known = self.model.program.observations.calls.get(value) if value.op in _POOLING else None
        given = known[1].get(0 if known[2] is not None else 1, "dim") if known is not None else None
        number = values.resolved(given) if given is not None else None
        constant = number.constant if isinstance(number, values.Plain) and number.is_literal else None
        return (value.site, constant) if type(constant) is int and constant in (0, 1) else None

    def _layer(self, value: values.Value) -> values.ModuleOutput | None:
        """The layer of sequences whose output, of all steps, a value is."""
        for _ in range(4):
            value = values.resolved(value)
            if isinstance(value, values.Component):
                whole = values.resolved(value.parents[0])
                is_output = isinstance(whole, values.ModuleOutput) and whole.key_of(value) == 0
                return whole if is_output and self._is_of(whole, _RECURRENT) else None  # type: ignore[return-value]
            if isinstance(value, values.ModuleOutput):
                if self._is_of(value, _ENCODERS):
                    return value
                if not self._is_of(value, frozenset({"Dropout", "ReLU", "LayerNorm"})) or len(value.parents) < 2:
                    return None
                value = value.parents[1]
            elif isinstance(value, values.Tensor) and value.op in _PASSING:
                value = value.parents[0]
            else:
                return None
        return None

    def _is_of(self, value: values.Value, names: frozenset[str]) -> bool:
        module = values.resolved(value.parents[0])
        return isinstance(module, values.Module) and module.info is None and module.name.rpartition(".")[2] in names

    def _is_single(self, given: values.Value) -> bool:
        """Whether a layer gets a dimension of size 1, which may be either."""
        given = values.resolved(given)
        code = self.model.tree.code(given.site) if given.site is not None else ""
        return isinstance(given, values.Tensor) and ("unsqueeze" in code or "None" in code or "1," in code)

    def _positions(self, given: values.Value) -> tuple[Site, int] | None:
        """Where positions are added to what a layer gets, and along which dimension: `x + pe[:x.size(0)]`."""
        for _ in range(6):
            given = values.resolved(given)
            if isinstance(given, values.ModuleOutput):
                is_dropout = (
                    given.body is None and self._is_of(given, frozenset({"Dropout"})) and len(given.parents) > 1
                )
                inner = given.parents[1] if is_dropout else given.body
                if inner is None:
                    return None
                given = inner
            elif isinstance(given, values.Tensor) and given.op == operators.ADD and given.site is not None:
                found = [self._place(item) for item in given.parents]
                places = [item for item in found if item is not None]
                return (given.site, places[0]) if len(places) == 1 else None
            elif isinstance(given, values.Tensor) and given.op in _PASSING:
                given = given.parents[0]
            else:
                return None
        return None

    def _place(self, positions: values.Value) -> int | None:
        """The dimension of x whose size cuts positions off: 0 of `pe[:x.size(0)]`, 1 of `pe[:, :x.size(1)]`."""
        positions = values.resolved(positions)
        node = self.model.tree.node(positions.site) if positions.site is not None else None
        if not isinstance(node, ast.Subscript) or not isinstance(positions, values.Tensor):
            return None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        cuts = [
            (place, item) for place, item in enumerate(parts) if isinstance(item, ast.Slice) and item.upper is not None
        ]
        if len(cuts) != 1 or cuts[0][1].lower is not None:
            return None
        size = cuts[0][1].upper
        if isinstance(size, ast.Call) and python_ast.called_name(size) == "size" and len(size.args) == 1:
            number: ast.AST = size.args[0]
        elif isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape":
            number = size.slice
        else:
            return None
        is_same = isinstance(number, ast.Constant) and number.value == cuts[0][0]
        return cuts[0][0] if is_same and cuts[0][0] in (0, 1) else None

    def report_Swapped(self, found: Swapped) -> None:
        other = "samples first" if found.steps == 0 else "steps first"
        self.report(
            found.site,
            f"dimension {found.steps} is taken for the steps here, and `{found.name}` has {other}",
            related=[(found.layer, "the layer is made here")],
            help="make both agree: `batch_first=True` for (samples, steps, features)",
        )


def _index_of_last(node: ast.Subscript) -> int | None:
    """The dimension of which the last element is taken: 1 of `x[:, -1]`, 0 of `x[-1]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for place, item in enumerate(parts[:2]):
        if isinstance(item, ast.UnaryOp) and ast.unparse(item) == "-1":
            return place
        if not isinstance(item, ast.Slice) or item.lower or item.upper or item.step:
            return None
    return None
