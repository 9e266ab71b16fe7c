"""Dropout of recurrent networks with one layer, where it has no effect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import default_numbers
from torchlint.syntax import python_ast

_NETWORKS = frozenset({"torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU"})
_LAYERS, _DROPOUT = 2, 5
"""The places of `num_layers` and `dropout` among the arguments."""


class WithoutEffect(NamedTuple):
    """The network created at `site` has one layer, and a dropout between layers."""

    site: python_ast.Site
    dropout: str
    is_sure: bool


class DropoutOfSingleLayer(Rule):
    """A recurrent network with a single layer ignores its `dropout`.

    ## What it does
    Finds `nn.LSTM`, `nn.GRU` and `nn.RNN` with one layer and a `dropout` above zero, given as a number or as the
    default of a parameter. PyTorch applies dropout after each layer except the last.

    The finding has low confidence if the single layer is only the default of a parameter.

    ## Why is this bad?
    The network trains without the requested regularization. PyTorch warns at construction, but the warning is
    easily lost in a log.

    ## Example
    ```python
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(100, 256, batch_first=True, dropout=0.5)
    ```

    Use instead:
    ```python
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.5)
            self.lstm = nn.LSTM(100, 256, batch_first=True)
    ```

    ## References
    - [torch.nn.LSTM](https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html)
    """

    code = "TL334"
    category = Category.SUSPICIOUS
    triggers = ((b"LSTM", b"GRU", b"RNN"), (b"dropout",))

    def ask(self) -> Iterator[WithoutEffect]:
        known = self.model.definitions
        for call in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            is_plain = not any(isinstance(item, ast.Starred) for item in call.args)
            if (
                known.named(call.func) not in _NETWORKS
                or not is_plain
                or any(item.arg is None for item in call.keywords)
            ):
                continue
            dropout, layers = _argument(call, "dropout", _DROPOUT), _argument(call, "num_layers", _LAYERS)
            share = default_numbers.default_number(dropout, known) if dropout is not None else None
            count = default_numbers.default_number(layers, known) if layers is not None else 1
            if dropout is not None and share is not None and share > 0 and count == 1:
                is_sure = layers is None or isinstance(layers, ast.Constant)
                yield WithoutEffect(python_ast.site_of(call), self.model.tree.code(dropout), is_sure)

    def report_WithoutEffect(self, found: WithoutEffect) -> None:
        self.report(
            found.site,
            f"`dropout={found.dropout}` has no effect: dropout applies between layers, and there is only one",
            help="add layers, or an `nn.Dropout` after this one",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )


def _argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    written = next((item.value for item in call.keywords if item.arg == name), None)
    return written if written is not None or len(call.args) <= place else call.args[place]
