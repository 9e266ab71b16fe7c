"""Probabilities where cross-entropy wants logits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint import Category, Rule, edits
from torchlint.model import events, values

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RESHAPING = frozenset(
    "view reshape squeeze unsqueeze flatten transpose permute float double half to cuda cpu contiguous clamp "
    "clamp_min getitem".split()
)


@dataclass(frozen=True)
class SoftmaxAsLogits:
    """The loss at `loss` takes what the softmax at `softmax` gives."""

    loss: Site
    softmax: Site


class SoftmaxBeforeCrossEntropy(Rule):
    """Cross-entropy is given a softmax, though it applies one itself.

    ## What it does
    Finds calls of `F.cross_entropy` and `nn.CrossEntropyLoss` whose input is the result of a softmax: in the same
    function, or as an output of a module of the file, on every `return` of its `forward`.

    ## Why is this bad?
    The loss takes logits, of any size. Probabilities are between 0 and 1, so that its own softmax makes them nearly
    equal: with ten classes a perfect prediction still costs 1.46, and a hopeless one 2.46. Gradients are small
    everywhere, and training is slow or stops early.

    ## Example
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        probabilities = F.softmax(model(x), dim=1)
        return F.cross_entropy(probabilities, y)
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(model, x, y):
        logits = model(x)
        return F.cross_entropy(logits, y)
    ```

    ## Fix safety
    Removing the softmax is unsafe: it changes the loss. It is offered where nothing else reads the softmax.

    ## What verify shows
    `torchlint verify` looks at what the loss is given: confirmed if all rows are in [0, 1] and add up to one, at each
    call; refuted if there are values outside of [0, 1] at each call.

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html):
      "The input is expected to contain the unnormalized logits for each class"
    """

    code = "TL501"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"CrossEntropyLoss", b"cross_entropy"), (b"oftmax",))
    calls = frozenset({"CrossEntropyLoss", "cross_entropy"})

    def ask(self) -> Iterator[SoftmaxAsLogits]:
        for trace in self.model.program.traces:
            for event in trace.of(events.Compute):
                logits = _input_of_cross_entropy(event.value)
                softmax = self._softmax(logits) if logits is not None else None
                if softmax is not None:
                    yield SoftmaxAsLogits(event.site, softmax)

    def _softmax(self, value: values.Value, seen: frozenset[values.Value] = frozenset()) -> Site | None:
        """The softmax that a value surely is the result of, through changes of shape and type."""
        value = _reshaped(values.resolved(value))
        if value in seen:
            return None
        seen |= {value}
        if isinstance(value, values.Phi):
            return _only([self._softmax(item, seen) for item in values.inputs_of(value)])
        if not isinstance(value, values.Tensor):
            return None
        if value.op == "softmax":
            return value.site
        if value.op == "module":
            return self._softmax_of_module(values.resolved(value.parents[0]), value, seen)
        return self._softmax_of_output(value, seen) if value.op == "component" else None

    def _softmax_of_module(
        self, module: values.Value, call: values.Tensor | None, seen: frozenset[values.Value]
    ) -> Site | None:
        """The softmax that a module ends in, if it does; `call` is its result, where it is the module called."""
        if not isinstance(module, values.Module):
            return None
        if module.info is not None:
            returned = call.body if call is not None else self.model.program.returned_by(module.info)
            return self._softmax(returned, seen) if returned is not None else None
        if module.name == "torch.nn.Softmax":
            return module.site if call is None else call.site
        if module.name == "torch.nn.Sequential" and module.parents and self._is_written_out(module):
            return self._softmax_of_module(values.resolved(module.parents[-1]), None, seen)
        return None

    def _softmax_of_output(self, output: values.Tensor, seen: frozenset[values.Value]) -> Site | None:
        """The softmax that one of several outputs of a module is."""
        whole = output.parents[0]
        key, body = whole.key_of(output), whole.body if isinstance(whole, values.Tensor) else None
        returned = list(values.inputs_of(body)) if body is not None else []
        if not isinstance(key, int) or not all(_has_element(item, key) for item in returned):
            return None
        return _only([self._softmax(item.parents[key], seen) for item in returned])

    def _is_written_out(self, module: values.Module) -> bool:
        """Whether the modules of a `Sequential` are all written in its call: a list may grow under a condition."""
        node = self.model.tree.node(module.site) if module.site is not None else None
        return isinstance(node, ast.Call) and not any(isinstance(item, ast.Starred) for item in node.args)

    # -- report ---------------------------------------------------------------------------------------

    def report_SoftmaxAsLogits(self, answer: SoftmaxAsLogits) -> None:
        call = self.model.tree.node(answer.loss)
        given = _first_argument(call)
        name = f"`{given.id}`" if isinstance(given, ast.Name) else "its input"
        self.report(
            answer.loss,
            f"cross-entropy takes logits, but {name} is a softmax: gradients are small, and perfect predictions cost",
            related=[(answer.softmax, "the softmax is here")],
            help="give it what the softmax is made of",
            fix=self._fix(call, given, answer.softmax),
        )

    def _fix(self, call: ast.AST, given: ast.expr | None, softmax: Site) -> edits.Change | None:
        """What the softmax is made of in its place, where the loss is all that reads it."""
        node, written = self.model.tree.node(softmax), self.nodes.at(softmax) if self.nodes is not None else None
        operand = _operand(node)
        if written is None or operand is None or not (node is given or self._is_for(node, given)):
            return None
        code = self.model.tree.code(operand)
        return edits.Change("remove the softmax", [edits.Replace(written, code)]) if "\n" not in code else None

    def _is_for(self, softmax: ast.AST, name: ast.expr | None) -> bool:
        """Whether a softmax is assigned to a name of its function that is read in one place only."""
        tree = self.model.tree
        statement, function = tree.parent(softmax), self.model.program.definitions.function_around(softmax)
        if not isinstance(name, ast.Name) or not isinstance(statement, ast.Assign) or function is None:
            return False
        same = [node for node in ast.walk(function.node) if isinstance(node, ast.Name) and node.id == name.id]
        return same.count(name) == 1 and len(same) == 2 and same[0] in statement.targets


def _reshaped(value: values.Value) -> values.Value:
    """What a value is in another shape or type, or with a number added."""
    seen: set[values.Value] = set()
    while isinstance(value, values.Tensor) and value not in seen:
        seen.add(value)
        beside = value.parents[1:] if value.op == "add" else ()
        is_shifted = bool(beside) and all(isinstance(item, values.Plain) for item in beside)
        if value.parents and (is_shifted or value.op in _RESHAPING):
            value = values.resolved(value.parents[0])
    return value


def _only(sites: list[Site | None]) -> Site | None:
    """The first of several sites, if there are any, and none is missing."""
    return sites[0] if sites and None not in sites else None


def _has_element(value: values.Value, key: int) -> bool:
    """Whether a value is a tuple or list of so many known elements."""
    return isinstance(value, values.Container) and len(value.elements()) == len(value.parents) > key


def _input_of_cross_entropy(value: values.Value) -> values.Value | None:
    """The first argument of a cross-entropy of PyTorch, if a value is the result of one."""
    if not isinstance(value, values.Tensor):
        return None
    if value.op == "cross_entropy":
        return value.parents[0]
    module = values.resolved(value.parents[0]) if value.op == "module" else None
    is_loss = isinstance(module, values.Module) and module.name == "torch.nn.CrossEntropyLoss" and module.info is None
    return value.parents[1] if is_loss and len(value.parents) > 1 else None


def _first_argument(call: ast.AST) -> ast.expr | None:
    """What a call of a loss is given as its input."""
    if not isinstance(call, ast.Call):
        return None
    named = [item.value for item in call.keywords if item.arg == "input"]
    return next(iter((*call.args[:1], *named)), None)


def _operand(softmax: ast.AST) -> ast.expr | None:
    """`x` of `F.softmax(x, dim=1)`, `x.softmax(1)` and `nn.Softmax(dim=1)(x)`."""
    given = _first_argument(softmax)
    if not isinstance(softmax, ast.Call) or not isinstance(softmax.func, ast.Attribute):
        return given
    return softmax.func.value if given is None or isinstance(given, ast.Constant) else given
