"""Attention masks with the wrong polarity, or with rows that hide every position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import attention, endings, masks, numbers, polarity
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_DECODER = "tgt memory tgt_mask memory_mask tgt_key_padding_mask memory_key_padding_mask"
_LAYERS = {
    "MultiheadAttention": "query key value key_padding_mask need_weights attn_mask".split(),
    "TransformerEncoderLayer": "src src_mask src_key_padding_mask".split(),
    "TransformerEncoder": "src mask src_key_padding_mask".split(),
    "TransformerDecoderLayer": _DECODER.split(),
    "TransformerDecoder": _DECODER.split(),
    "Transformer": "src tgt src_mask tgt_mask memory_mask src_key_padding_mask tgt_key_padding_mask".split(),
}
"""The parameters of the attention layers."""
_REVERSED = LazyPattern(r"(?i)backward|revers|right.to.left|r2l|anti_?causal|future")
"""Names of masks for models that read from the end."""
_SOFTMAXES = frozenset({operators.SOFTMAX, "log_softmax"})
_FILLS = frozenset({operators.ADD, operators.MASKED_FILL, operators.MASKED_FILL_})
_HIGH = 1e3
_MOST_USERS = 50
"""So many values are followed from scores to their softmax."""


class Inverted(NamedTuple):
    """The mask at `made`, used at `site`, is wrong in one of five ways; for a wrong number, both are one place."""

    site: Site
    made: Site
    how: str


class InvertedMask(Rule):
    """An attention mask hides what it should show, or everything.

    ## What it does
    Finds causal masks (`tril`, `triu`) and padding masks (`tokens != pad`, `arange(n) < lengths`) with the wrong
    polarity. The code passes them to `masked_fill` or `torch.where` with minus infinity, to `nn.MultiheadAttention`, to
    the layers of `nn.Transformer`, or to `scaled_dot_product_attention`. Also finds `triu(ones)` without `diagonal=1`,
    which hides each position from itself. Also finds masks of 0 and 1 that are not boolean, because attention adds
    these to the scores. Also finds padding masks whose last dimension has size 1, and scores that a mask sets to plus
    infinity or a large positive number.

    ## Why is this bad?
    `masked_fill` and the masks of `nn.MultiheadAttention` are True where attention is not allowed. The mask of
    `scaled_dot_product_attention` is True where it is allowed. With the wrong polarity, a model attends only to
    padding, or to the tokens that it has to predict. In the second case, the loss is low and generation fails. A row
    that hides every position gives NaN.

    ## Example
    ```python
    import torch

    def attend(scores, values):
        n = scores.size(-1)
        mask = torch.tril(torch.ones(n, n)).bool()
        scores = scores.masked_fill(mask, float("-inf"))
        return torch.softmax(scores, dim=-1) @ values
    ```

    Use instead:
    ```python
    import torch

    def attend(scores, values):
        n = scores.size(-1)
        mask = torch.tril(torch.ones(n, n)).bool()
        scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1) @ values
    ```

    ## References
    - [torch.nn.MultiheadAttention](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html)
    - [scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "TL529"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"tril", b"triu", b"pad", b"arange", b"masked_fill"), (b"mask",))
    calls = frozenset({"masked_fill", "masked_fill_", "scaled_dot_product_attention", "softmax", "Embedding", *_LAYERS})

    def ask(self) -> Iterator[Inverted]:
        self._polarities = polarity.Polarities(self.model.program)
        masked = self.model.program.observations.masked
        self._masks: dict[Site, values.Value] = {site: mask for site, _, mask in reversed(masked)}
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for change in trace.of(events.Mutate):
                yield from self._changed(change)
            for event in trace.of(events.Compute):
                for value, calls in masks.computed_in_calls(event.value):
                    for found in self._wrong(value, calls):
                        if found.site not in seen:
                            seen.add(found.site)
                            yield found

    def _changed(self, change: events.Mutate) -> Iterator[Inverted]:
        """Scores that are filled in place: `scores.masked_fill_(mask, -inf)`, `scores[mask] = -inf`."""
        if change.how == operators.MASKED_FILL_ and len(change.by) == 2:
            mask, fill = change.by
            if self._is_high(fill) and self._is_softmaxed(change.target, change.site):
                yield Inverted(change.site, change.site, "positive")
        elif change.how == operators.SETITEM and change.by and (by_site := self._masks.get(change.site)) is not None:
            mask, fill = by_site, change.by[-1]
        else:
            return
        known = self._polarities.of(mask) if self._is_far(fill) and self._attends(change.target) else None
        if known is not None and (known.keeps or known.masks_itself):
            yield Inverted(change.site, known.made, "inverted" if known.keeps else "itself")

    def _wrong(self, value: values.Tensor, calls: masks.Calls) -> Iterator[Inverted]:
        if value.site is None:
            return
        if value.op == operators.MASKED_FILL and len(value.parents) == 3 and self._is_high(value.parents[2]):
            if self._is_softmaxed(value, value.site):
                yield Inverted(value.site, value.site, "positive")
        for mask, is_kept, adds in self._uses(value):
            known = self._polarities.of(mask, calls)
            if known is None or self._is_reversed(mask, known):
                continue
            if adds and not known.is_boolean:
                yield Inverted(value.site, known.made, "adds")
            elif known.keeps is not is_kept:
                yield Inverted(value.site, known.made, "inverted")
            elif known.masks_itself:
                yield Inverted(value.site, known.made, "itself")
            elif known.is_column and not known.is_causal and value.op in _FILLS and self._compares_keys(value):
                yield Inverted(value.site, known.made, "queries")

    def _compares_keys(self, scores: values.Tensor) -> bool:
        """Whether a softmax over the last dimension follows, in which a mask of queries changes nothing."""
        before = values.resolved(scores.parents[0])
        if isinstance(before, values.Tensor) and before.op in _FILLS:
            return False
        users = [user for user in self.model.domain.users(scores) if user.op in _SOFTMAXES or attention.is_layer(user)]
        return bool(users) and all(attention.dimension(user, self.model.program) in (-1, 3) for user in users)

    def _is_reversed(self, mask: values.Value, known: polarity.Polarity) -> bool:
        """Whether a mask shows later positions on purpose, by its name or that of its function."""
        around = self.model.definitions.function_around(self.model.tree.node(known.made))
        names = (values.resolved(mask).label, around.name if around is not None else "")
        return known.is_causal and any(map(_REVERSED.search, names))

    def _uses(self, value: values.Tensor) -> Iterator[tuple[values.Value, bool, bool]]:
        """The masks of an operation, whether True should mean visible, and whether the mask is added to scores."""
        operands = value.parents
        if value.op in (operators.MASKED_FILL, operators.MASKED_FILL_) and len(operands) == 3:
            if self._is_far(operands[2]) and self._attends(value):
                yield operands[1], False, False
        elif value.op == operators.WHERE and len(operands) == 3 and self._is_far(operands[2]) and self._attends(value):
            yield operands[0], True, False
        elif value.op == operators.SOFTMAX and operands:
            scores = values.resolved(operands[0])
            is_sum = isinstance(scores, values.Tensor) and scores.op == operators.ADD
            for item in map(values.resolved, scores.parents if is_sum else ()):
                is_product = isinstance(item, values.Tensor) and item.op == operators.MUL and len(item.parents) == 2
                for mask, fill in (item.parents, item.parents[::-1]) if is_product else ():
                    if self._is_far(fill):
                        yield mask, False, False
        known = self.model.program.observations.calls.get(value)
        module = values.resolved(operands[0]) if isinstance(value, values.ModuleOutput) else None
        if known is not None and value.op == operators.SCALED_DOT_PRODUCT_ATTENTION:
            given = known[1].get(3, "attn_mask")
            if given is not None:
                yield given, True, True
        elif known is not None and isinstance(module, values.Module) and module.info is None:
            for index, name in enumerate(_LAYERS.get(module.name.rpartition(".")[2], ())):
                given = known[1].get(index, name) if "mask" in name else None
                if given is not None:
                    yield given, False, True

    def _attends(self, scores: values.Value) -> bool:
        """Whether a softmax follows: other code fills with large numbers as well, before a maximum for example."""
        seen, stack = set[values.Value](), [scores]
        while stack and len(seen) < _MOST_USERS:
            for user in self.model.domain.users(stack.pop()):
                if user.op == operators.SOFTMAX or isinstance(user, values.ModuleOutput):
                    return True
                if user not in seen:
                    seen.add(user)
                    stack.append(user)
        return False

    def _is_softmaxed(self, scores: values.Value, after: Site) -> bool:
        """Whether a softmax of these scores follows, without a change of their sign."""
        seen, stack = set[values.Value](), [scores]
        while stack and len(seen) < _MOST_USERS:
            for user in self.model.domain.users(stack.pop()):
                is_softmax = user.op in _SOFTMAXES or attention.is_layer(user)
                if is_softmax and user.site is not None and user.site.line > after.line:
                    return True
                if user not in seen and user.op in endings.SHAPES | _FILLS:
                    seen.add(user)
                    stack.append(user)
        return False

    def _is_high(self, fill: values.Value) -> bool:
        number = numbers.of(fill, self.model.program)
        return self.model.domain.is_plus_infinity(fill) or (number is not None and number >= _HIGH)

    def _is_far(self, fill: values.Value) -> bool:
        return numbers.is_far(fill, self.model.program) or self.model.domain.is_minus_infinity(fill)

    def report_Inverted(self, found: Inverted) -> None:
        messages = {
            "inverted": "the attention mask is inverted: it hides the positions that it should show",
            "itself": "the mask hides each position from itself: the first row has nothing left to attend to",
            "positive": "this mask sets scores to a large positive number: they get all of the attention, or NaN",
            "queries": "the padding mask has size 1 in the last dimension: it fills whole rows and hides no position",
            "adds": "the mask holds 0 and 1 instead of booleans: attention adds them to the scores and hides nothing",
        }
        advice = {
            "inverted": "invert the mask: `~mask`",
            "itself": "pass `diagonal=1` to `triu`",
            "positive": "fill in minus infinity: `float('-inf')`",
            "queries": "add the new dimensions before the positions: `mask[:, None, None, :]`",
            "adds": "use `.bool()`",
        }
        related = [(found.made, "the mask is made here")] if found.made != found.site else []
        self.report(found.site, messages[found.how], related=related, help=advice[found.how])
