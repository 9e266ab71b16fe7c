"""The last step of a bidirectional network as the summary of a sequence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.model.queries import names, sequences, variables
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_PASSING = frozenset({"Dropout", "ReLU", "LayerNorm"})
_SHAPES = frozenset({"size", "shape", "device", "dtype", "dim", "ndim"})
_PARTS = frozenset({operators.GETITEM, "chunk", "split"})
_STEPS = 4


class LastStep(NamedTuple):
    """The code at `taken` selects the last step of the bidirectional layer made at `layer`."""

    taken: Site
    layer: Site
    name: str


class LastStepOfBidirectional(Rule):
    """The last step of a bidirectional network summarizes a sequence.

    ## What it does
    Finds `out[:, -1]` of an `nn.LSTM`, `nn.GRU` or `nn.RNN` with `bidirectional=True`, where the code uses no other
    step of the output.

    ## Why is this bad?
    The backward direction starts at the last step. Its half of `out[:, -1]` has read only one step of the sequence, so
    half of the features say nothing about the rest. The final state of the backward direction is at the first step,
    and in the second result of the layer.

    ## Example
    ```python
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 2)

        def forward(self, x):
            out, _ = self.lstm(x)
            return self.head(out[:, -1])
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 2)

        def forward(self, x):
            _, (h, _) = self.lstm(x)
            return self.head(torch.cat([h[-2], h[-1]], dim=1))
    ```

    ## Known limits
    torchlint does not recognize an index that is computed, such as `out[:, length - 1]`.

    ## References
    - [torch.nn.LSTM](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html): `output` and `h_n`
    """

    code = "TL731"
    category = Category.SUSPICIOUS
    triggers = ((b"LSTM", b"GRU", b"RNN"), (b"bidirectional",), (b"-1",))
    calls = frozenset({"LSTM", "GRU", "RNN"})

    def ask(self) -> Iterator[LastStep]:
        self._sequences = sequences.Sequences(self.model.program)
        seen = set[Site]()
        for value in [] if self.model.is_test else self.model.layout.results():
            if value.site is not None and value.site not in seen:
                found = self._found(value)
                if found is not None:
                    seen.add(value.site)
                    yield found

    def _found(self, taken: values.Tensor) -> LastStep | None:
        """The finding for the selection of a last step."""
        layer = self._layer(taken)
        module = values.resolved(layer.parents[0]) if layer is not None else None
        if layer is None or not isinstance(module, values.Module) or module.site is None or taken.site is None:
            return None
        is_only = self._is_only_use(taken) and not self._is_halved(taken)
        if not is_only or self._sequences.is_single(layer.parents[1]):
            return None
        return LastStep(taken.site, module.site, module.name.rpartition(".")[2])

    def _layer(self, taken: values.Tensor) -> values.ModuleOutput | None:
        """The bidirectional layer whose last step a value is."""
        claimed = self._sequences.steps_of(taken)
        layer = self._sequences.layer(taken.parents[0]) if claimed is not None else None
        if layer is None or claimed is None or not self._sequences.is_bidirectional(layer):
            return None
        return layer if self._sequences.samples_first(layer) is (claimed[1] == 1) else None

    def _is_only_use(self, taken: values.Tensor) -> bool:
        """Whether the program reads nothing else of the layer's output than its last step."""
        output: values.Value = values.resolved(taken.parents[0])
        for _ in range(_STEPS):
            users = [user for user in self.model.domain.users(output) if user != taken]
            users = [user for user in users if self._layer(user) is None and not self._is_passing(user)]
            if users or not self._is_unread(output, taken):
                return False
            if not isinstance(output, values.ModuleOutput) or not self._is_passing(output) or len(output.parents) < 2:
                return True
            output = values.resolved(output.parents[1])
        return False

    def _is_passing(self, value: values.Tensor) -> bool:
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        return isinstance(module, values.Module) and module.name.rpartition(".")[2] in _PASSING

    def _is_unread(self, output: values.Value, taken: values.Tensor) -> bool:
        """Whether the function of a selection reads the variable of the output only to take steps or its size."""
        node = self.model.tree.node(taken.site) if taken.site is not None else None
        base = node.value if isinstance(node, ast.Subscript) else None
        if not isinstance(base, ast.Name) or node is None:
            return True
        after = [item for item in self._stores(base) if item.lineno >= base.lineno]
        until = min((getattr(self.model.tree.statement(item), "end_lineno", 0) for item in after), default=None)
        for item in names.own_nodes(self.model.tree.scope_around(node)):
            if until is not None and getattr(item, "lineno", 0) > until:
                continue  # the variable holds something else
            if (
                isinstance(item, ast.Name)
                and item.id == base.id
                and isinstance(item.ctx, ast.Load)
                and (item.lineno, item.col_offset) >= (base.lineno, base.col_offset)
            ):
                around = self.model.tree.parent(item)
                is_size = isinstance(around, ast.Attribute) and around.attr in _SHAPES
                is_step = isinstance(around, ast.Subscript) and python_ast.written_alike(around, node)
                if not is_size and not is_step:
                    return False
            if isinstance(item, ast.Return) and item.value is not None and self._returns(item.value, base.id):
                return False
        return True

    def _stores(self, name: ast.Name) -> list[ast.Name]:
        return variables.bindings(name.id, name, self.model.definitions)

    def _returns(self, value: ast.expr, name: str) -> bool:
        """Whether a function returns a variable as it is, alone or beside others."""
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
        return any(isinstance(part, ast.Name) and part.id == name for part in parts)

    def _is_halved(self, taken: values.Tensor) -> bool:
        """Whether the program takes a part of the last step: `last[:, :hidden]`."""
        return any(user.op in _PARTS for user in self.model.domain.users(taken))

    def report_LastStep(self, found: LastStep) -> None:
        self.report(
            found.taken,
            f"the backward direction of the `{found.name}` has read only the last step here, not the sequence",
            related=[(found.layer, "the bidirectional layer is made here")],
            help="join the final states of both directions: `torch.cat([h[-2], h[-1]], dim=1)`",
        )
