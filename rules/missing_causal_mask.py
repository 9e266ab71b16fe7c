"""Transformers that see the tokens which they learn to predict."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

from . import _shifted_tokens as shifted_tokens
from . import _uncovered_layers as uncovered_layers

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Uncovered(NamedTuple):
    """The layer call at `site` gets no causal mask, but the model at `use` gets tokens that precede its targets."""

    site: Site
    use: Site
    layer: str


class MissingCausalMask(Rule):
    """A transformer without a causal mask learns to predict tokens that it sees.

    ## What it does
    Finds models that call PyTorch's `TransformerEncoder`, `TransformerDecoder` or `Transformer` without a mask over
    future tokens, and that get `tokens[:, :-1]` where the same function uses `tokens[:, 1:]`, the next tokens.

    ## Why is this bad?
    The target of each position is the input of the next one, and attention copies it. The loss falls to almost 0, but
    generated text is nonsense, because the future tokens are missing then.

    ## Example
    ```python
    import torch.nn.functional as F
    from torch import nn

    class LanguageModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 32)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, batch_first=True), 2)
            self.head = nn.Linear(32, 100)

        def forward(self, tokens):
            return self.head(self.encoder(self.embed(tokens)))

    def train(loader, optimizer):
        model = LanguageModel()
        for tokens in loader:
            optimizer.zero_grad()
            output = model(tokens[:, :-1])
            F.cross_entropy(output.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F
    from torch import nn

    class LanguageModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 32)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, batch_first=True), 2)
            self.head = nn.Linear(32, 100)

        def forward(self, tokens):
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
            return self.head(self.encoder(self.embed(tokens), mask=mask, is_causal=True))

    def train(loader, optimizer):
        model = LanguageModel()
        for tokens in loader:
            optimizer.zero_grad()
            output = model(tokens[:, :-1])
            F.cross_entropy(output.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
    ```
    """

    code = "TL721"
    category = Category.CORRECTNESS
    triggers = ((b"-1",), (b"1:",), (b"backward",), (b"torch",))

    def ask(self) -> Iterator[Uncovered]:
        seen = set[python_ast.Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                module = self._module(event.value)
                call = self.model.tree.own_node(event.site)
                if module is None or module.info is None or event.site in seen or not isinstance(call, ast.Call):
                    continue
                seen.add(event.site)
                for index in (index for index, item in enumerate(call.args) if self._is_shifted(item)):
                    layer = uncovered_layers.call_in(module.info, index)
                    if layer is not None:
                        is_own = module.info.definitions is self.model.definitions
                        name = python_ast.dotted(layer.func)
                        yield Uncovered(python_ast.site_of(layer if is_own else call), event.site, name)

    def _module(self, value: values.Value) -> values.Module | None:
        """The module of the program that computes a value."""
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        return module if isinstance(module, values.Module) else None

    def _is_shifted(self, given: ast.expr) -> bool:
        """Whether an argument is a sequence without its last token, and the rest are the targets of a loss."""
        given = written.value_of(given, self.model.definitions)
        if not isinstance(given, ast.Subscript) or not shifted_tokens.is_slice(given.slice, "", "-1"):
            return False
        scope = self.model.tree.function_around(given) or self.model.tree.module
        losses = [
            node for node in names.own_nodes(scope) if isinstance(node, ast.Call) and shifted_tokens.is_loss(node)
        ]
        whole = ast.dump(given.value)
        for target in (item for loss in losses for item in python_ast.arguments(loss)[1:2]):
            rest = shifted_tokens.sequence(target)
            rest = shifted_tokens.sequence(written.value_of(rest, self.model.definitions))
            if (
                isinstance(rest, ast.Subscript)
                and shifted_tokens.is_slice(rest.slice, "1", "")
                and ast.dump(rest.value) == whole
            ):
                return True
        return False

    def report_Uncovered(self, found: Uncovered) -> None:
        self.report(
            found.site,
            f"`{found.layer}` gets no causal mask, so it sees the tokens that it should predict",
            related=[(found.use, "the targets are the next tokens of this input")],
            help="pass `nn.Transformer.generate_square_subsequent_mask(length)`",
        )
