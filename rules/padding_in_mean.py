"""Sentence embeddings that average over padding."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MANY = LazyPattern(
    r"(?i)(texts|sents|sentences|batch|batch_text|queries|docs|documents|passages|captions|titles|lines)$"
)
_HIDDEN = frozenset({"last_hidden_state", "hidden_states"})
_MASKS = frozenset({"src_key_padding_mask", "key_padding_mask"})
_STEPS = 8


class Padded(NamedTuple):
    """The mean at `site` is over all positions of texts that the tokenizer pads at `padded`."""

    site: Site
    padded: Site


class PaddingInMean(Rule):
    """The mean of a model's hidden states counts padding.

    ## What it does
    Finds `model(**inputs).last_hidden_state.mean(dim=1)` where a tokenizer with `padding=True` computes `inputs` from
    several texts, and the function does not use the attention mask. Also finds
    `encoder(x, src_key_padding_mask=mask).mean(dim=1)` where the function does not use the mask again.

    ## Why is this bad?
    The model computes hidden states for padding, too. In a short text, most of the mean comes from padding. The same
    text gets different embeddings, because the amount of padding depends on the longest text of the batch.

    ## Example
    ```python
    import torch

    def embed(model, tokenizer, texts):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            return model(**inputs).last_hidden_state.mean(dim=1)
    ```

    Use instead:
    ```python
    import torch

    def embed(model, tokenizer, texts):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        mask = inputs["attention_mask"].unsqueeze(-1)
        with torch.no_grad():
            return (model(**inputs).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1)
    ```

    ## References
    - [Mean pooling in sentence-transformers](https://www.sbert.net/docs/package_reference/sentence_transformer/models.html)
    """

    code = "TL517"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"padding",), (b"mean",), (b"last_hidden_state", b"hidden_states", b"key_padding_mask"))

    def ask(self) -> Iterator[Padded]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            hidden = _averaged(call)
            if hidden is not None and (encoder := self._masked(hidden)) is not None and self._is_only_use(encoder):
                yield Padded(python_ast.site_of(call), python_ast.site_of(encoder))
            inputs = self._inputs(hidden) if hidden is not None else None
            if inputs is None or not self._is_padded(inputs) or self._uses_mask(call):
                continue
            yield Padded(python_ast.site_of(call), python_ast.site_of(inputs))

    def _masked(self, hidden: ast.expr) -> ast.Call | None:
        """The call of an encoder that gets a mask of padding, and whose hidden states these are."""
        value = written.value_of(hidden, self.model.definitions)
        names_given = {item.arg for item in value.keywords} if isinstance(value, ast.Call) else set()
        return value if isinstance(value, ast.Call) and names_given & _MASKS else None

    def _is_only_use(self, encoder: ast.Call) -> bool:
        """Whether a function mentions masks only in a call and in the assignments of what it passes."""
        inside = {id(item) for item in python_ast.walk(encoder)}
        given = [item.value for item in encoder.keywords if item.arg in _MASKS]
        read = {item.id for value in given for item in python_ast.walk(value) if isinstance(item, ast.Name)}
        function = self.model.tree.function_around(encoder)
        for node in names.own_nodes(function) if function is not None else ():
            if "mask" not in _text(node) or id(node) in inside or not isinstance(node, (ast.Name, ast.Attribute)):
                continue
            statement = self.model.tree.statement(node)
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if not any(isinstance(item, ast.Name) and item.id in read for item in targets):
                return False
        return function is not None

    def _inputs(self, hidden: ast.expr) -> ast.Call | None:
        """The call of the tokenizer whose result a model turns into hidden states."""
        is_hidden = False
        for _ in range(_STEPS):
            if isinstance(hidden, ast.Attribute):
                is_hidden |= hidden.attr in _HIDDEN
                hidden = hidden.value
            elif isinstance(hidden, ast.Subscript):
                is_hidden |= isinstance(hidden.slice, ast.Constant) and hidden.slice.value in _HIDDEN
                hidden = hidden.value
            elif isinstance(hidden, ast.BinOp):
                hidden = hidden.left
            elif isinstance(hidden, ast.Name):
                value = written.value_of(hidden, self.model.definitions)
                if value is hidden:
                    return None
                hidden = value
            else:
                break
        given = [item.value for item in hidden.keywords if item.arg is None] if isinstance(hidden, ast.Call) else []
        inputs = given[0] if len(given) == 1 and is_hidden else None
        for _ in range(3):
            inputs = written.value_of(inputs, self.model.definitions) if inputs is not None else None
            if isinstance(inputs, ast.Call) and python_ast.called_name(inputs) == "to":
                inputs = inputs.func.value if isinstance(inputs.func, ast.Attribute) else None
        return inputs if isinstance(inputs, ast.Call) else None

    def _is_padded(self, call: ast.Call) -> bool:
        """Whether a call pads several texts, or all texts to one length."""
        padding = next((item.value for item in call.keywords if item.arg == "padding"), None)
        kind = padding.value if isinstance(padding, ast.Constant) else None
        text = call.args[0] if call.args else None
        is_slice = isinstance(text, ast.Subscript) and isinstance(text.slice, ast.Slice)
        is_list = isinstance(text, (ast.List, ast.ListComp)) and len(getattr(text, "elts", "ab")) > 1
        is_named = text is not None and bool(_MANY.search(python_ast.last_name(text)))
        return kind == "max_length" or (kind in (True, "longest") and (is_slice or is_list or is_named))

    def _uses_mask(self, call: ast.Call) -> bool:
        """Whether a function mentions a mask."""
        function = self.model.tree.function_around(call)
        return any("mask" in _text(node) for node in (names.own_nodes(function) if function is not None else ()))

    def report_Padded(self, found: Padded) -> None:
        self.report(
            found.site,
            "this mean counts the padding of all texts that are shorter than the longest",
            related=[(found.padded, "the padded batch is here")],
            help="weight the hidden states with the attention mask, and divide by its sum",
        )


def _averaged(call: ast.Call) -> ast.expr | None:
    """The hidden states whose mean over positions a call computes."""
    if python_ast.called_name(call) != "mean" or not isinstance(call.func, ast.Attribute):
        return None
    is_function = python_ast.dotted(call.func) == "torch.mean"
    if is_function and not call.args:
        return None
    dimension = written.argument(call, int(is_function), "dim") or written.argument(call, int(is_function), "axis")
    return (call.args[0] if is_function else call.func.value) if numbers.literal(dimension) in (1, -2) else None


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return str(node.value) if isinstance(node, ast.Constant) else ""
