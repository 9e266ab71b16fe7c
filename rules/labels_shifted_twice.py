"""Labels of a causal language model that both the program and the model shift."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_CAUSAL = LazyPattern(r"^transformers\.(?:\w+\.)*\w+(?:ForCausalLM|LMHeadModel)\.from_pretrained$")
_SAME_PLACES = frozenset({"contiguous", "clone", "to", "long", "cuda", "detach"})


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
                    before, after = self._written(inputs), self._written(labels)
                    if _leaves_out_first(after) and _leaves_out_last(before) and _have_one_owner(before, after):
                        yield SecondShift(event.site, python_ast.site_of(after))

    def _written(self, node: ast.expr) -> ast.expr:
        """The expression that a name is bound to, if its function binds it once. Ignores `contiguous()`."""
        if isinstance(node, ast.Name):
            around = self.model.tree.function_around(node) or self.model.tree.module
            bound = [found for item in python_ast.walk(around) for found in _bindings(item, node.id)]
            node = bound[0] if len(bound) == 1 and bound[0] is not None else node
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_PLACES:
            node = node.func.value
        return node

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


def _bindings(node: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """The value that a statement binds a name to, or None where the code does not show it."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            parts = node.value.elts if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) else []
            for index, item in enumerate(names):
                if isinstance(item, ast.Name) and item.id == name:
                    whole = node.value if item is target else None
                    yield parts[index] if len(parts) == len(names) else whole
    elif isinstance(node, (ast.For, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        stored = (item for item in python_ast.walk(node.target) if isinstance(item, ast.Name) and item.id == name)
        yield from (None for _ in stored)


def _last_slice(node: ast.expr) -> ast.Slice | None:
    """The slice `1:` of `x[:, 1:]`."""
    parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    is_slice = len(parts) > 1 and isinstance(parts[-1], ast.Slice) and parts[-1].step is None
    return parts[-1] if is_slice and isinstance(parts[-1], ast.Slice) else None


def _leaves_out_first(node: ast.expr) -> bool:
    part = _last_slice(node)
    lower = part.lower if part is not None and part.upper is None else None
    return isinstance(lower, ast.Constant) and lower.value == 1


def _leaves_out_last(node: ast.expr) -> bool:
    part = _last_slice(node)
    return part is not None and part.lower is None and part.upper is not None and ast.unparse(part.upper) == "-1"


def _have_one_owner(first: ast.expr, second: ast.expr) -> bool:
    both = isinstance(first, ast.Subscript) and isinstance(second, ast.Subscript)
    return both and python_ast.written_alike(first.value, second.value)  # type: ignore[attr-defined]
