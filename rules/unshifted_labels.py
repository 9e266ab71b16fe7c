"""Labels of a causal language model that are not shifted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import losses
from torchlint.pytorch import operators
from torchlint.syntax import python_ast

from .labels_shifted_twice import is_causal

if TYPE_CHECKING:
    from torchlint.model.relations._padding import Calls
    from torchlint.syntax.python_ast import Site

_SAME = frozenset(
    "view reshape flatten transpose permute contiguous clone detach to long float cuda squeeze log_softmax".split()
)
_JOINING = "cat"
_FILLING = frozenset("full new_full zeros new_zeros ones new_ones full_like zeros_like ones_like tensor".split())
_MOST_STEPS = 12
_TOKENS = LazyPattern(r"(^|_)(ids?|tokens?)(_|$)|^\['(input_ids|tokens)'\]$", re.IGNORECASE)
_CAUSAL = LazyPattern(rb"tril|triu|is_causal|square_subsequent|ausal_mask")
_SHIFTS = r":\s*-\s*1\s*[,\]]|(?<!un)shift|roll\b"
_SHIFTING = LazyPattern(_SHIFTS, re.IGNORECASE)
_OTHERWISE = LazyPattern(
    _SHIFTS.encode() + rb"|bidirectional|recon|vae\b|auto_?encod|denois|mlm|mask_token|masked_l|\bbert"
    rb"|corrupt|noise",
    re.IGNORECASE,
)
"""Words in programs that shift, or that learn to reproduce their input."""


class Unshifted(NamedTuple):
    """The loss at `loss` compares the logits of the call at `call` with the input tokens of that call."""

    loss: Site
    call: Site


class UnshiftedLabels(Rule):
    """A causal language model is trained to repeat its input token.

    ## What it does
    Finds `cross_entropy` between the logits of a language model and the model's input tokens, both at all positions.
    The model is a Transformers causal language model, has a causal mask, or is an argument of the function. In a
    program that also has an autoencoder, torchlint reports only code that puts a start token before the tokens. This
    rule is a preview because an unknown model may shift its input itself.

    ## Why is this bad?
    The logits at a position predict the next token. Here they are compared with the token at the same position, which
    the model sees, so it only has to repeat it. The loss falls to almost 0, and the model learns nothing about the next
    token.

    ## Example
    ```python
    import torch.nn.functional as F
    from transformers import AutoModelForCausalLM

    def loss_of(ids):
        model = AutoModelForCausalLM.from_pretrained("gpt2")
        logits = model(ids).logits
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten())
    ```

    Use instead:
    ```python
    import torch.nn.functional as F
    from transformers import AutoModelForCausalLM

    def loss_of(ids):
        model = AutoModelForCausalLM.from_pretrained("gpt2")
        logits = model(ids).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    ```"""

    code = "TL716"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"cross_entropy", b"CrossEntropyLoss"), (b"ids", b"tokens", b"CausalLM", b"LMHead", b"tri"))
    calls = frozenset({"cross_entropy", "CrossEntropyLoss", "from_pretrained"})

    def ask(self) -> Iterator[Unshifted]:
        for event, loss, calls in [] if self.model.is_test else self.model.layout.computed():
            given = losses.operands(loss) if losses.loss_function(loss) in ("cross_entropy", "nll_loss") else ()
            call = self._whole(given[0], calls) if len(given) > 1 else None
            tokens = self._whole(given[1], calls) if len(given) > 1 else None
            if isinstance(call, (values.ModuleOutput, values.CallResult)) and tokens is not None and call.site:
                inputs = call.parents[1:] if isinstance(call, values.ModuleOutput) else call.parents
                takes = any(self._whole(item, calls) is tokens for item in inputs[:1])
                if takes and self._is_text(call, tokens) and not self._is_cut(tokens):
                    yield Unshifted(event.site, call.site)

    def _whole(self, value: values.Value, calls: Calls) -> values.Value | None:
        """The tokens, or the model call, that an operand covers at all positions."""
        for _ in range(_MOST_STEPS):
            value = values.resolved(value)
            if isinstance(value, values.Parameter) and calls and value.label in calls[-1]:
                value, calls = calls[-1][value.label], calls[:-1]
            elif isinstance(value, values.Tensor) and not isinstance(value, values.ModuleOutput) and value.parents:
                if value.op not in _SAME and not isinstance(value, values.Component):
                    return value if value.op != operators.GETITEM else None
                value = value.parents[0]
            else:
                made = values.resolved(value.parents[0]) if value.parents else None
                if not isinstance(value, (values.Attribute, values.Element)) or not isinstance(made, values.CallResult):
                    return value
                value = made
        return None

    def _is_text(self, call: values.Value, tokens: values.Value) -> bool:
        """Whether a call runs a causal language model, as far as the code shows."""
        if isinstance(call, values.CallResult):
            return is_causal(call)
        model = values.resolved(call.parents[0])
        info = model.info if isinstance(model, values.Module) else None
        code = self.model.tree.source.code
        if info is not None and self._has_start(tokens):
            is_causal_model = _CAUSAL.search(info.definitions.tree.source.code) is not None
            return is_causal_model and not _SHIFTING.search(ast.unparse(info.node))
        if _OTHERWISE.search(code) or not isinstance(model, values.Module) or model.name.startswith("torch."):
            return False
        if info is not None:
            own = info.definitions.tree.source.code
            return bool(_CAUSAL.search(own)) and not _OTHERWISE.search(own)
        return bool(_TOKENS.search(tokens.label))

    def _has_start(self, tokens: values.Value) -> bool:
        """Whether code puts a constant token before all others, so that the model predicts the first one from it."""
        parts = values.resolved(tokens.parents[0]) if isinstance(tokens, values.Tensor) and tokens.parents else None
        if not isinstance(tokens, values.Tensor) or tokens.op != _JOINING or not isinstance(parts, values.Container):
            return False
        first = next(iter(parts.elements()), None)
        node = self.model.tree.node(values.resolved(first).site) if first is not None else None
        return isinstance(node, ast.Call) and python_ast.called_name(node) in _FILLING

    def _is_cut(self, tokens: values.Value) -> bool:
        """Whether code drops positions of the tokens or stores something into them."""
        node = self.model.tree.node(tokens.site) if tokens.site is not None else None
        if isinstance(node, ast.Subscript) and any(isinstance(item, ast.Slice) for item in python_ast.walk(node.slice)):
            return True
        stores = (item for item in self.model.tree.of_type(ast.Subscript) if isinstance(item.ctx, ast.Store))
        return any(
            "ids" in (name := python_ast.dotted(item.value)) or name in ("labels", "targets", "x") for item in stores
        )

    def report_Unshifted(self, found: Unshifted) -> None:
        self.report(
            found.loss,
            "the labels are the model's input tokens at the same positions: the model only learns to repeat them",
            related=[(found.call, "the model gets the same tokens here")] if found.call != found.loss else (),
            help="compare `logits[:, :-1]` with `tokens[:, 1:]`",
        )
