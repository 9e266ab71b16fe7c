"""Transformers that see the tokens which they learn to predict."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import names, next_tokens, written
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo
    from torchlint.syntax.python_ast import Site
_INPUTS = {"TransformerEncoder": 1, "TransformerDecoder": 2, "Transformer": 2}
"""Layers of PyTorch with the number of their inputs before the masks."""
_MASKS = frozenset({"mask", "src_mask", "tgt_mask", "is_causal", "tgt_is_causal", None})


class Uncovered(NamedTuple):
    """The layer call at `site` gets no causal mask, but the model at `use` gets tokens that precede its targets."""

    site: Site
    use: Site
    layer: str
    mask: str
    """The argument of the layer that takes the mask."""


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
                    layer, mask = _call_in(module.info, index) or (None, "")
                    if layer is not None:
                        is_own = module.info.definitions is self.model.definitions
                        name = python_ast.dotted(layer.func)
                        yield Uncovered(python_ast.site_of(layer if is_own else call), event.site, name, mask)

    def _module(self, value: values.Value) -> values.Module | None:
        """The module of the program that computes a value."""
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        return module if isinstance(module, values.Module) else None

    def _is_shifted(self, given: ast.expr) -> bool:
        """Whether an argument is a sequence without its last token, and the rest are the targets of a loss."""
        definitions = self.model.definitions
        scope = self.model.tree.scope_around(given)
        calls = (node for node in names.own_nodes(scope) if isinstance(node, ast.Call))
        losses = (call for call in calls if naming.LOSS.search(python_ast.called_name(call)))
        targets = (target for loss in losses for target in python_ast.arguments(loss)[1:2])
        return any(next_tokens.shifted(given, target, definitions) is not None for target in targets)

    def report_Uncovered(self, found: Uncovered) -> None:
        self.report(
            found.site,
            f"`{found.layer}` gets no causal mask, so it sees the tokens that it should predict",
            related=[(found.use, "the targets are the next tokens of this input")],
            help=f"pass `nn.Transformer.generate_square_subsequent_mask(length)` as `{found.mask}`",
        )


def _call_in(info: ClassInfo, index: int) -> tuple[ast.Call, str] | None:
    """The call to a transformer layer on an argument of `forward`, and the mask that all such calls lack."""
    forward = info.method("forward")
    calls = (
        [node for node in python_ast.walk(forward.node) if isinstance(node, ast.Call)] if forward is not None else []
    )
    found = list[tuple[ast.Call, str]]()
    for call in calls:
        made = written.value_of(call.func, info.definitions) if isinstance(call.func, ast.Attribute) else None
        kind = names.imported(made.func, info.definitions) if isinstance(made, ast.Call) else ""
        layer = kind.removeprefix("torch.nn.").removeprefix("modules.transformer.")
        if not kind.startswith("torch.nn.") or layer not in _INPUTS:
            continue
        if len(call.args) > _INPUTS[layer] or any(item.arg in _MASKS for item in call.keywords):
            return None
        if layer == "TransformerEncoder" and not _is_plain(made, info):
            return None
        place = 1 if layer == "Transformer" else 0
        if forward is not None and len(call.args) > place and index + 1 < len(forward.parameters):
            if _depends(call.args[place], forward.parameters[index + 1], forward.node):
                found.append((call, "mask" if layer == "TransformerEncoder" else "tgt_mask"))
    return found[-1] if found else None


def _depends(node: ast.expr, parameter: str, function: ast.AST) -> bool:
    """Whether an expression reads a parameter, or a variable that the function computes from it."""
    known, assigned = {parameter}, [item for item in python_ast.walk(function) if isinstance(item, ast.Assign)]
    for statement in assigned:
        if known & python_ast.names_read(statement.value):
            known |= {
                item.id
                for target in statement.targets
                for item in python_ast.walk(target)
                if isinstance(item, ast.Name)
            }
    return bool(known & python_ast.names_read(node))


def _is_plain(encoder: ast.expr | None, info: ClassInfo) -> bool:
    """Whether an encoder repeats PyTorch's own layer, which attends to all positions."""
    layer = written.argument(encoder, 0, "encoder_layer") if isinstance(encoder, ast.Call) else None
    made = written.value_of(layer, info.definitions) if layer is not None else None
    return isinstance(made, ast.Call) and names.imported(made.func, info.definitions).startswith("torch.nn.")
