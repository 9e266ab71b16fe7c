"""Precision: the tensors that `torch.autocast` computes in half precision."""

from __future__ import annotations

import ast

from torchlint.model.events import Event
from torchlint.model.program import Program
from torchlint.model.queries import names
from torchlint.model.values import (
    Attribute,
    Component,
    Container,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Value,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import FUNCTIONS, dotted
from torchlint.syntax.python_tree import PythonTree

HALF, BFLOAT = "float16", "bfloat16"
_AUTOCAST = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"}) | {
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
}
_LAYERS = frozenset("Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Bilinear".split())
_PRODUCTS = frozenset("matmul bmm mm addmm linear conv1d conv2d conv3d einsum baddbmm".split())
_KEEPING = frozenset(
    "sigmoid tanh relu gelu view reshape squeeze unsqueeze transpose permute flatten contiguous clone dropout getitem "
    "neg clamp abs max min amax amin mean std expand chunk masked_fill".split()
)
"""Operators that keep the type of their first operand under autocast."""
_EXTREMES = frozenset({"max", "min"})
_WITH_NUMBERS = frozenset({operators.ADD, operators.SUB, operators.RSUB, operators.MUL, operators.DIV})
_MOST = 16


def autocast_of(event: Event, program: Program) -> str:
    """The type of the `autocast` around an event, if it is certain within the function; else empty."""
    for site in (event.site, *reversed(event.calls)):
        node = program.tree.own_node(site)
        for around in program.tree.ancestors(node) if node is not None else ():
            if isinstance(around, FUNCTIONS):
                break
            if isinstance(around, ast.With):
                for item in around.items:
                    found = _type_of(item.context_expr, program)
                    if found is not None:
                        return found
    return ""


def _type_of(context: ast.expr, program: Program) -> str | None:
    """The half-precision type that a context switches to; empty if it is off, None if it is no autocast."""
    if not isinstance(context, ast.Call) or names.imported(context.func, program.definitions) not in _AUTOCAST:
        return None
    options = {item.arg: item.value for item in context.keywords}
    enabled = options.get("enabled")
    if isinstance(enabled, ast.Constant) and not enabled.value:
        return ""
    written = dotted(options.get("dtype"))
    if written:
        return BFLOAT if written.endswith("bfloat16") else HALF if written.endswith(("float16", "half")) else ""
    device = [item.value for item in context.args if isinstance(item, ast.Constant)]
    is_cpu = "cpu" in device or ".cpu." in names.imported(context.func, program.definitions)
    return BFLOAT if is_cpu else HALF if "dtype" not in options and len(context.args) < 2 else ""


def is_half(value: Value, tree: PythonTree, steps: int = _MOST) -> bool:
    """Whether autocast surely computes a value in half precision: a matrix product, or operators that keep its type."""
    value = resolved(value)
    if isinstance(value, Attribute) and value.label == "values" and value.parents:  # `x.max(dim=1).values`
        whole = resolved(value.parents[0])
        return isinstance(whole, Tensor) and whole.op in _EXTREMES and is_half(whole, tree, steps - 1)
    if isinstance(value, Phi) and not value.is_loop:
        return bool(steps) and all(is_half(item, tree, steps - 1) for item in value.parents)
    if not isinstance(value, Tensor) or not value.parents or not steps:
        return False
    if isinstance(value, Component):
        whole = resolved(value.parents[0])
        body = whole.body if isinstance(whole, ModuleOutput) else None
        part = body.element_at(whole.key_of(value)) if isinstance(body, Container) else None
        return part is not None and is_half(part, tree, steps - 1)
    if isinstance(value, ModuleOutput):
        module = resolved(value.parents[0])
        if value.body is not None:
            return is_half(value.body, tree, steps - 1)
        name = module.name.rpartition(".")[2] if isinstance(module, Module) and module.info is None else ""
        if name in ("Sigmoid", "Tanh", "ReLU", "GELU", "Dropout") and len(value.parents) > 1:
            return is_half(value.parents[1], tree, steps - 1)
        last = resolved(module.parents[-1]) if name == "Sequential" and module.parents else None
        name = last.name.rpartition(".")[2] if isinstance(last, Module) else name
        return name in _LAYERS
    if value.op in _PRODUCTS:
        return True
    if value.op in _WITH_NUMBERS:
        tensors = [item for item in map(resolved, value.parents) if not isinstance(item, Plain)]
        cast = [
            item
            for item in tensors
            if isinstance(item, Tensor) and item.op == operators.TO and _is_cast_to(item, value, tree)
        ]
        others = [item for item in tensors if item not in cast]
        return bool(others) and all(is_half(item, tree, steps - 1) for item in others)
    return value.op in _KEEPING and is_half(value.parents[0], tree, steps - 1)


def _is_cast_to(cast: Tensor, product: Tensor, tree: PythonTree) -> bool:
    """Whether `mask.to(x.dtype)` has the type of the other operand of a product, `x`."""
    nodes = [tree.node(item.site) for item in map(resolved, cast.parents[1:]) if item.site is not None]
    named = {dotted(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "dtype"}
    return any(resolved(item).label in named for item in product.parents if resolved(item).label)
