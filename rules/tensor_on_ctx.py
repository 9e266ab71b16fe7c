"""Tensors that an autograd function stores as attributes of its context."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchlint import Category, Rule
from torchlint.model.queries import autograd_functions, names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.queries.autograd_functions import AutogradFunction
    from torchlint.syntax.python_ast import Site

_NO_TENSORS = frozenset({"int", "float", "bool", "str", "torch.Size", "torch.dtype", "torch.device"})


class TensorOnContext(NamedTuple):
    """The code stores an input or output of `forward` in an attribute of the context."""

    site: Site
    name: str
    attribute: str
    is_output: bool


class TensorOnCtx(Rule):
    """A tensor is stored as an attribute of `ctx`, without `save_for_backward`.

    ## What it does
    Finds `ctx.name = tensor` in the `forward` of an autograd function, where the tensor is an output of `forward`, or
    an input for which `backward` returns a gradient.

    Not reported: numbers, shapes and intermediate results.

    This rule is a preview because the garbage collector frees the memory, and in-place changes are rare. Outputs that
    `forward` returns only in part have no cycle.

    ## Why is this bad?
    Autograd does not check such tensors. If one changes in place before the backward pass, `backward` computes a
    wrong gradient, where a saved tensor would raise. A stored output references its own graph, and this cycle holds
    memory until Python's garbage collector runs.

    ## Example
    ```python
    from torch.autograd import Function

    class Root(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.sqrt()
            ctx.y = y
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad / (2 * ctx.y)
    ```

    Use instead:
    ```python
    from torch.autograd import Function

    class Root(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.sqrt()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad / (2 * y)
    ```

    ## References
    - [torch.autograd.function.FunctionCtx.save_for_backward](https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.FunctionCtx.save_for_backward.html):
      "Tensors should be saved with `save_for_backward` rather than directly on `ctx`"
    """

    code = "TL304"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"Function",), (b"backward",), (b"autograd",))

    def ask(self) -> Iterator[TensorOnContext]:
        for function in autograd_functions.autograd_functions(self.model.definitions):
            if function.context:
                yield from self._kept(function)

    def _kept(self, function: AutogradFunction) -> Iterator[TensorOnContext]:
        inputs, outputs = set(_differentiated(function)), _returned(function)
        bound = {node.id for node in names.own_nodes(function.forward.node) if _is_store(node)}
        for node in names.own_nodes(function.forward.node):
            for target, value in _pairs(node):
                if python_ast.dotted(target.value) == function.context and isinstance(value, ast.Name):
                    is_output = value.id in outputs
                    if is_output or (value.id in inputs and value.id not in bound):
                        yield TensorOnContext(python_ast.site_of(node), value.id, target.attr, is_output)

    def report_TensorOnContext(self, kept: TensorOnContext) -> None:
        place = f"`{self.model.tree.code(kept.site).partition('=')[0].strip()}`"
        if kept.is_output:
            message = (
                f"`{kept.name}`, an output, is stored as {place}: the reference cycle holds memory, and the gradient"
            )
        else:
            message = f"`{kept.name}` is stored as {place}: the gradient"
        self.report(
            kept.site,
            f"{message} is wrong after an in-place change",
            help=f"call `ctx.save_for_backward({kept.name})`, and read it from `ctx.saved_tensors`",
        )


def _pairs(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """The attributes that a statement stores, each with its value: `ctx.a, ctx.b = a, b`."""
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
        targets = target.elts if several and isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if several and isinstance(node.value, ast.Tuple) else [node.value]
        for item, value in zip(targets, values, strict=False):
            if isinstance(item, ast.Attribute):
                yield item, value


def _is_store(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _differentiated(function: AutogradFunction) -> Iterator[str]:
    """The inputs of `forward` for which some `return` of `backward` has a gradient."""
    for value in autograd_functions.returns_of(function.backward):
        given = value.elts if isinstance(value, ast.Tuple) else [value] if len(function.inputs or ()) == 1 else []
        written = takewhile(lambda item: not isinstance(item, ast.Starred), given)
        for parameter, item in zip(function.inputs or (), written, strict=False):
            is_number = python_ast.dotted(parameter.annotation) in _NO_TENSORS
            if item is not None and not python_ast.is_literal(item, None) and not is_number:
                yield parameter.arg


def _returned(function: AutogradFunction) -> set[str]:
    """The names that `forward` returns, fully or in part."""
    values = autograd_functions.returns_of(function.forward)
    items = [item for value in values for item in (value.elts if isinstance(value, ast.Tuple) else [value])]
    parts = (item.value if isinstance(item, ast.Subscript) else item for item in items)
    return {item.id for item in parts if isinstance(item, ast.Name)} - {function.context}
