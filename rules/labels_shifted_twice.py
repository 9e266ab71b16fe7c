"""Labels of a causal language model that both the program and the model shift."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import next_tokens

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CAUSAL = LazyPattern(r"^transformers\.(?:\w+\.)*\w+(?:ForCausalLM|LMHeadModel)\.from_pretrained$")


class SecondShift(NamedTuple):
    """The program shifts the labels at `labels`, and the model called at `call` shifts them again."""

    call: Site
    labels: Site


class LabelsShiftedTwice(Rule):
    """The program shifts labels that the causal language model shifts itself.

    ## What it does
    Finds calls to a Transformers `...ForCausalLM` or `...LMHeadModel` that get `x[:, :-1]` as inputs and `x[:, 1:]` as
    `labels`.

    ## Why is this bad?
    These models shift `labels` themselves, so position i learns the label at i + 1. With shifted labels, that is the
    token two positions ahead. The loss falls, but the model learns to skip every other token.

    ## Example
    ```python
    from transformers import AutoModelForCausalLM

    def loss_of(ids):
        model = AutoModelForCausalLM.from_pretrained("gpt2")
        return model(input_ids=ids[:, :-1], labels=ids[:, 1:]).loss
    ```

    Use instead:
    ```python
    from transformers import AutoModelForCausalLM

    def loss_of(ids):
        model = AutoModelForCausalLM.from_pretrained("gpt2")
        return model(input_ids=ids, labels=ids).loss
    ```

    ## References
    - [Transformers: GPT2LMHeadModel](https://huggingface.co/docs/transformers/model_doc/gpt2#transformers.GPT2LMHeadModel.forward):
      "the labels are shifted inside the model"
    """

    code = "TL713"
    category = Category.CORRECTNESS
    triggers = ((b"transformers",), (b"ForCausalLM", b"LMHeadModel"), (b"labels",), (b"1:",), (b":-1", b": -1"))
    calls = frozenset({"from_pretrained"})

    def ask(self) -> Iterator[SecondShift]:
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Call)):
            node = self.model.tree.node(event.site)
            if isinstance(node, ast.Call) and is_causal(event.value):
                given = {item.arg: item.value for item in node.keywords}
                inputs, labels = node.args[0] if node.args else given.get("input_ids"), given.get("labels")
                if inputs is not None and labels is not None:
                    shifted = next_tokens.shifted(inputs, labels, self.model.definitions)
                    if shifted is not None:
                        yield SecondShift(event.site, shifted)

    def report_SecondShift(self, found: SecondShift) -> None:
        self.report(
            found.call,
            "the model shifts `labels` itself: with shifted labels it learns the token after the next",
            related=[(found.labels, "the labels are shifted here")],
            help="pass the same tokens as `input_ids` and `labels`",
        )


def is_causal(made: values.Unknown) -> bool:
    """Whether a call runs a Transformers causal language model."""
    model = values.resolved(made.callee) if made.callee is not None else None
    maker = values.resolved(model.callee) if isinstance(model, values.Unknown) and model.callee is not None else None
    return isinstance(maker, values.External) and bool(_CAUSAL.search(maker.name))
