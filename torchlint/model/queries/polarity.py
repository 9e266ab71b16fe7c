"""The polarity of attention masks: whether True, or 1, marks a position to attend to, or one to ignore."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.program import Program
from torchlint.model.queries import masks, numbers, written
from torchlint.model.values import (
    Attribute,
    Element,
    Module,
    ModuleOutput,
    Parameter,
    Phi,
    Plain,
    Tensor,
    Value,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_MOST = 24
_PAD = LazyPattern(r"(?i)(?:^|[._])pad(?:ding)?(?:_?(?:id|ids|idx|index|token|token_id|value|symbol))?$")
_BOOLEAN = frozenset({"bool", "byte"})
_NUMERIC = frozenset({"float", "half", "double", "long", "int"})
_SAME = frozenset(
    "unsqueeze squeeze expand view reshape repeat to type cuda cpu type_as contiguous detach clone".split()
)
_RESIZING = frozenset("expand view reshape repeat squeeze".split())
_MOVING = frozenset({"transpose", "permute"})
_TRIANGLES = frozenset({"tril", "triu"})
_METHODS = {"eq": ast.Eq, "ne": ast.NotEq, "gt": ast.Gt, "lt": ast.Lt, "ge": ast.GtE, "le": ast.LtE}


class Polarity(NamedTuple):
    """A mask that is true at positions to attend to (`keeps`), or at the others."""

    keeps: bool
    made: Site
    is_causal: bool
    """Whether it separates later positions from earlier ones; otherwise padding from tokens."""
    masks_itself: bool = False
    """Whether each position counts as later than itself."""
    is_boolean: bool = False
    is_column: bool = False
    """Whether its last dimension certainly has the size 1, so that it marks queries instead of keys."""

    def turned(self) -> Polarity:
        return self._replace(keeps=not self.keeps, is_boolean=True)


class Polarities:
    """Answers about the masks of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def of(self, mask: Value, calls: masks.Calls = ()) -> Polarity | None:
        """The polarity of a mask, also of one that calls around pass to a parameter; None if not known."""
        return self._of(mask, calls, _MOST)

    def _of(self, mask: Value, calls: masks.Calls, steps: int) -> Polarity | None:
        mask = resolved(mask)
        if isinstance(mask, Parameter):
            given = calls[-1].given.get(mask.label) if calls and steps else None
            return self._of(given, calls[:-1], steps - 1) if given is not None else None
        if isinstance(mask, Phi):
            found = (
                {self._of(item, calls, steps - 1) for item in mask.parents} if steps and not mask.is_loop else {None}
            )
            return found.pop() if len(found) == 1 else None
        if not isinstance(mask, Tensor) or not mask.parents or mask.site is None or not steps:
            return None
        if mask.op in _TRIANGLES:
            return self._of_triangle(mask, mask.site)
        if mask.op in masks.COMPARISONS:
            return self._of_comparison(mask, mask.site, calls, steps)
        inner = self._of(mask.parents[0], calls, steps - 1)
        if inner is None and mask.op in (operators.SUB, operators.RSUB) and len(mask.parents) > 1:
            return self._of_difference(mask, calls, steps)
        if inner is None:
            return None
        if mask.op in _BOOLEAN or self._converts_to_bool(mask.site):
            return inner._replace(is_boolean=True)
        if mask.op in _NUMERIC:
            return inner._replace(is_boolean=False)
        if mask.op == operators.LOGICAL_NOT or (mask.op == operators.BITWISE and self._inverts(mask.site)):
            return inner.turned()
        if mask.op in _SAME or mask.op == operators.GETITEM:
            return inner._replace(is_column=self._is_column(mask, mask.site, inner.is_column))
        return inner._replace(is_column=False) if self._transposes_padding(mask, inner) else None

    def _is_column(self, mask: Tensor, site: Site, was_column: bool) -> bool:
        """Whether the last dimension of a mask is new: `mask.unsqueeze(-1)`, `mask[:, None, :, None]`."""
        if mask.op == operators.UNSQUEEZE:
            dimension = numbers.dimension(mask, self._program)
            return dimension in (-1, 3) or (was_column and dimension in (0, 1))
        if mask.op == operators.GETITEM:
            node = self._program.tree.node(site)
            parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
            return bool(parts) and python_ast.is_literal(parts[-1], None)
        return was_column and mask.op not in _RESIZING

    def _converts_to_bool(self, site: Site) -> bool:
        """Whether an expression is `mask.to(torch.bool)` or `mask.type(torch.bool)`."""
        node = self._program.tree.node(site)
        if not isinstance(node, ast.Call) or python_ast.called_name(node) not in ("to", "type"):
            return False
        return any(map(_is_bool, python_ast.arguments(node)))

    def _transposes_padding(self, mask: Tensor, inner: Polarity) -> bool:
        return mask.op in _MOVING and not inner.is_causal

    def _of_triangle(self, mask: Tensor, site: Site) -> Polarity | None:
        """The polarity of a triangle: `tril(ones)` is true at allowed positions, `triu(ones, diagonal=1)` is not."""
        whole = resolved(mask.parents[0])
        node = self._program.tree.node(whole.site) if whole.site is not None else None
        if not isinstance(node, ast.Call) or python_ast.called_name(node) not in ("ones", "ones_like", "full"):
            return None
        if python_ast.called_name(node) == "full" and not _fills_with_one(node):
            return None
        diagonal = self._diagonal(mask)
        is_boolean = any(item.arg == "dtype" and _is_bool(item.value) for item in node.keywords)
        if mask.op == operators.TRIL and diagonal == 0:
            return Polarity(True, site, True, is_boolean=is_boolean)
        if mask.op == operators.TRIU and diagonal in (0, 1):
            return Polarity(False, site, True, masks_itself=diagonal == 0, is_boolean=is_boolean)
        return None

    def _diagonal(self, triangle: Tensor) -> object:
        """The diagonal of a call, 0 by default; None if not known."""
        known = self._program.observations.calls.get(triangle)
        if known is None:
            return None
        given = known[1].get(0 if known[2] is not None else 1, "diagonal")
        if given is None:
            return 0
        number = resolved(given)
        return number.constant if isinstance(number, Plain) and number.is_literal else None

    def _of_comparison(self, mask: Tensor, site: Site, calls: masks.Calls, steps: int) -> Polarity | None:
        operator = self._operator(mask, site)
        if operator is None or len(mask.parents) != 2:
            return None
        left, right = (masks.argument(masks.adapted(item), calls) for item in mask.parents)
        number = right.constant if isinstance(right, Plain) and right.is_literal else None
        inner = self._of(mask.parents[0], calls, steps - 1) if number in (0, 1, False, True) else None
        if inner is not None:
            is_true = (operator in (ast.NotEq, ast.Gt)) if not number else operator in (ast.Eq, ast.GtE)
            is_false = operator is ast.Eq if not number else operator in (ast.NotEq, ast.Lt)
            turned = inner.turned() if is_false else inner._replace(is_boolean=True)
            return turned if is_true or is_false else None
        if any(isinstance(item, Tensor) and item.op in (operators.SUB, operators.RSUB) for item in (left, right)):
            return None  # padding at the start: positions from `n - lengths` on are allowed
        if operator in (ast.Lt, ast.GtE) and self._is_position(left) and not self._is_position(right):
            return Polarity(operator is ast.Lt, site, False, is_boolean=True)
        if operator in (ast.Gt, ast.LtE) and self._is_position(right) and not self._is_position(left):
            return Polarity(operator is ast.Gt, site, False, is_boolean=True)
        is_embedded = number is not None and number == self._padding_of.get(resolved(mask.parents[0]))
        if operator in (ast.Eq, ast.NotEq) and (is_embedded or any(map(self._is_padding, mask.parents))):
            return Polarity(operator is ast.NotEq, site, False, is_boolean=True)
        return None

    def _is_position(self, value: Value) -> bool:
        """Whether a value numbers positions, `torch.arange(n)`, in any type and on any device."""
        value = masks.adapted(value)
        while isinstance(value, Tensor) and value.op == operators.GETITEM and value.parents:
            value = masks.adapted(value.parents[0])
        node = self._program.tree.node(value.site) if isinstance(value, Tensor) and value.site is not None else None
        return isinstance(node, ast.Call) and python_ast.called_name(node) == "arange"

    def _is_padding(self, value: Value) -> bool:
        """Whether the name of a number says that it is the padding of sequences."""
        value = resolved(value)
        code = self._program.tree.code(value.site) if value.site is not None else ""
        is_number = isinstance(value, (Plain, Attribute, Parameter, Element))
        return is_number and (bool(_PAD.search(value.label)) or bool(_PAD.search(code)))

    @cached_property
    def _padding_of(self) -> dict[Value, object]:
        """The tokens that embeddings receive, each with the index of the embedding's padding."""
        found = dict[Value, object]()
        for value, _ in masks.computed(self._program):
            module = resolved(value.parents[0]) if isinstance(value, ModuleOutput) and len(value.parents) > 1 else None
            if isinstance(module, Module) and module.name == "torch.nn.Embedding" and module.site is not None:
                call = self._program.tree.node(module.site)
                index = written.argument(call, 2, "padding_idx") if isinstance(call, ast.Call) else None
                if isinstance(index, ast.Constant):
                    found[resolved(value.parents[1])] = index.value
        return found

    def _of_difference(self, mask: Tensor, calls: masks.Calls, steps: int) -> Polarity | None:
        """`1 - mask`."""
        first, second = mask.parents[:2] if mask.op == operators.SUB else mask.parents[1::-1]
        one = resolved(first)
        inner = self._of(second, calls, steps - 1)
        is_one = isinstance(one, Plain) and one.is_literal and one.constant == 1
        return inner.turned()._replace(is_boolean=False) if inner is not None and is_one else None

    def _operator(self, mask: Tensor, site: Site) -> type[ast.cmpop] | None:
        if mask.op in _METHODS:
            return _METHODS[mask.op]
        node = self._program.tree.node(site)
        if isinstance(node, ast.Call):
            return _METHODS.get(python_ast.called_name(node))
        return type(node.ops[0]) if isinstance(node, ast.Compare) and len(node.ops) == 1 else None

    def _inverts(self, site: Site) -> bool:
        node = self._program.tree.node(site)
        return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)


def _is_bool(node: ast.expr) -> bool:
    return python_ast.dotted(node) in ("bool", "torch.bool")


def _fills_with_one(node: ast.Call) -> bool:
    filled = node.args[1] if len(node.args) > 1 else None
    return isinstance(filled, ast.Constant) and filled.value in (1, True)
