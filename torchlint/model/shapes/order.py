"""Order of dimensions: views that name a tensor's dimensions in another order than it has."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from torchlint.model.program import Program
from torchlint.model.shapes import layout, operations
from torchlint.model.shapes.case import Case, Stop
from torchlint.model.shapes.numbers import is_shape
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.scope import ROOT
from torchlint.model.shapes.sizes import Known, Size, Symbol, product_of
from torchlint.model.shapes.states import layer_of_state
from torchlint.model.shapes.tensor_type import Choice, Misfit
from torchlint.model.values import Module, ModuleOutput, NewTensor, Plain, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.pytorch import shapes as table
from torchlint.syntax.python_ast import Site

_VIEWS = frozenset({"view", "reshape"})
_REST = Size.of(-1)
_POINTWISE = frozenset(
    "relu gelu silu sigmoid tanh dropout clamp exp log abs sqrt pow mul add sub div neg contiguous detach to float"
    " ReLU LeakyReLU GELU SiLU ELU Sigmoid Tanh Dropout Identity".split()
)
_OF_ROWS = frozenset({"Linear", "LayerNorm"})
_SAME_ELEMENTS = _VIEWS | {operators.EXPAND, "contiguous", "clone", "detach", "float", "to"}
_MAX_STEPS = 8
_MAX_TRANSPOSES = 4
_LINEAR = "linear"
_IMAGE = 4
"""The dimensions of a batch of images."""


class Displaced(NamedTuple):
    """The view at `site` requests the size of dimension `before` of its operand as dimension `after`."""

    site: Site
    before: int
    after: int


class Order:
    """Finds the views of a program that displace a dimension; unpacked shapes give `ranks`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ranks = dict(_ranks(program))
        self.undone = set[Site]()
        """Views that a later view undoes."""

    def views(self) -> Iterator[Tensor]:
        """The views that may displace something: random numbers have no order."""
        for value in list(self._program.observations.calls):
            if isinstance(value, Tensor) and value.op in _VIEWS and value.site is not None:
                if not isinstance(resolved(value.parents[0]), NewTensor):
                    yield value

    def displaced(self, case: Case, view: Tensor) -> Displaced | Misfit | Choice | None:
        """The first dimension that a view displaces, in a case."""
        try:
            return self._displaced(case, view)
        except Stop as stop:
            return stop.result

    def _displaced(self, case: Case, view: Tensor) -> Displaced | None:
        call = operations.operation(case, view, table.OPERATORS[view.op], ROOT)
        operand = call.get("self")
        asked = call.sizes_of(call.rest) if call.rest and call.is_complete else None
        if operand is None or asked is None or view.site is None or len(asked) < 2:
            return None
        rank = self._ranks.get(case.source(operand, ROOT)[0])
        if rank is not None and case.type_of(operand, ROOT).rank not in (None, rank):
            raise Stop(Misfit("shape", view.site, f"is not of {rank} dimensions, into which its shape is unpacked"))
        sizes, is_all = self._sizes(case, operand, asked)
        if self._restores(case, operand, asked) or self._is_repeated(case, operand):
            return None
        places = _displaced(sizes, is_all, asked)
        if places is not None and not is_all and _only_adds_ones(sizes, asked):
            return None
        if places is None and len(asked) == 2 and self._mixes_state(case, operand, asked):
            places = 1, 0
        if places is None and rank is not None and rank >= _IMAGE and is_all and _takes_channels(sizes, asked):
            places = 1, 1
        if places is None and len(asked) == 3:
            places = self._merged(case, operand, layout.named(case, view) or ())
        return Displaced(view.site, *places) if places is not None else None

    def _restores(self, case: Case, operand: Value, asked: Sequence[Known]) -> bool:
        """Whether a view gives a tensor back the sizes that it had before other views.

        Where only operators on single elements are in between, those views displace nothing.
        """
        before, views, is_pointwise = resolved(operand), set[Site](), True
        for _ in range(_MAX_STEPS):
            if not isinstance(before, Tensor) or len(before.parents) <= isinstance(before, ModuleOutput):
                return False
            if before.op in _VIEWS:
                views |= {before.site} if before.site is not None else set()
                before = resolved(before.parents[0])
                if self._has(case, before, asked):
                    self.undone |= views if is_pointwise else set()
                    return True
            else:
                is_pointwise = is_pointwise and self._is_pointwise(case, before, asked)
                before = resolved(before.parents[1 if isinstance(before, ModuleOutput) else 0])
        return False

    def _is_repeated(self, case: Case, operand: Value) -> bool:
        """Whether each sample repeats one number, `x.view(n, 1).expand(n, w * h)`, so that no order matters."""
        value = resolved(operand)
        for _ in range(_MAX_STEPS):
            if not isinstance(value, Tensor) or not value.parents or value.op not in _SAME_ELEMENTS:
                return False
            before = resolved(value.parents[0])
            sizes, is_all = self._sizes(case, before, ())
            if (
                value.op == operators.EXPAND
                and is_all
                and all(size is not None and size.number == 1 for size in sizes[1:])
            ):
                return bool(sizes)
            value = before
        return False

    def _has(self, case: Case, value: Value, asked: Sequence[Known]) -> bool:
        """Whether a tensor has exactly these sizes."""
        sizes, is_all = self._sizes(case, value, asked)
        rank = self._ranks.get(case.source(value, ROOT)[0])
        return None not in asked and tuple(sizes) == tuple(asked) and (is_all or rank in (None, len(asked)))

    def _is_pointwise(self, case: Case, value: Tensor, asked: Sequence[Known]) -> bool:
        """Whether an operator treats each element alone, or each row of the last dimension, which is not displaced."""
        module = resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
        if isinstance(module, Module):
            kind = module.name.removeprefix("torch.nn.")
            sizes, is_all = self._sizes(case, resolved(value.parents[1]), asked)
            return kind in _POINTWISE or (kind in _OF_ROWS and is_all and sizes[-1] == asked[-1])
        others = [item for item in map(resolved, value.parents[1:]) if not isinstance(item, Plain)]
        return value.op in _POINTWISE and not others

    def _mixes_state(self, case: Case, operand: Value, asked: Sequence[Known]) -> bool:
        """Whether a view forms rows of samples from a recurrent layer's state, whose order is by layers.

        The view is valid for a state of one layer and direction, and for a view with one row per state.
        """
        output = layer_of_state(operand)
        layer = case.layer(resolved(output.parents[0])) if output is not None else None
        if output is None or layer is None or layer.kind != table.RECURRENT:
            return False
        made = case.made_with(resolved(output.parents[0]), layer)
        call = Operation(case, output, ROOT, layer, made, (), True)
        hidden, layers, both = call.number("hidden_size"), call.integer("num_layers", 1), call.flag("bidirectional")
        several = (layers is not None and layers > 1) or both is True
        first, last = asked
        if hidden is None or first is None or call.get("proj_size") is not None or (layers == 1 and both is False):
            return False
        times = last.divided_by(hidden) if last is not None and last != _REST else None
        is_product = times is not None and (bool(times.symbols) or (times.number or 0) > 1)
        is_rest = last is None or last == _REST
        others = [resolved(item) for item in output.parents[2:]]
        is_sample = bool(first.symbols) and all(
            isinstance(item, Symbol) and item.dimension is not None and not _counts_states(item, others)
            for item in first.symbols
        )
        if first == _REST:
            return is_product
        return is_sample and (is_product or (several and is_rest))

    def _merged(self, case: Case, operand: Value, asked: layout.Layout) -> tuple[int, int] | None:
        """The place that joins heads before positions: (batch, heads, length, width) as (batch, length, all)."""
        sizes = layout.layout(case, operand)
        if sizes is None or len(sizes) != 4 or len(asked) != 3:
            return None
        batch, heads, length, width = sizes
        if batch.size is None or heads.size is None or batch.size == _REST or heads.size == length.size:
            return None
        is_number = heads.size.number is not None and heads.size.number > 1
        is_given = bool(heads.size.symbols) and all(
            isinstance(item, Symbol) and item.dimension is None for item in heads.size.symbols
        )
        first = (batch.size, case.dimension(case.source(operand, ROOT), 0))
        if asked[0].size not in first or not (is_number or is_given):
            return None
        if length.size is not None and length.size.symbols and asked[1].size == length.size:
            return 2, 1
        is_all = asked[1].size in (_REST, length.size) and _is_product(asked[2], heads, width)
        return (1, 2) if is_all else None

    def _sizes(self, case: Case, operand: Value, asked: Sequence[Known]) -> tuple[tuple[Known, ...], bool]:
        """The sizes of a tensor in order, and whether the list is complete."""
        known = self._known_sizes(case, operand, _MAX_TRANSPOSES)
        if known is not None:
            return known, True
        place = case.source(operand, ROOT)
        symbols = {symbol for size in asked if size is not None for symbol in size.symbols}
        dimensions = [item.dimension for item in symbols if isinstance(item, Symbol) and item.source == place]
        count = max((item for item in dimensions if item is not None), default=-1) + 1
        return tuple(case.dimension(place, index) for index in range(count)), False

    def _known_sizes(self, case: Case, operand: Value, depth: int) -> tuple[Known, ...] | None:
        type_ = case.type_of(operand, ROOT)
        place = case.source(operand, ROOT)
        if not type_.is_open:
            return tuple(size or case.dimension(place, index) for index, size in enumerate(type_.sizes))
        rank = self._ranks.get(place[0])
        if rank is not None:
            return tuple(case.dimension(place, index) for index in range(rank))
        if isinstance(place[0], ModuleOutput) and depth:
            return self._projected(case, place[0], type_.size(-1), depth)
        return self._transposed(case, place[0], depth) if isinstance(place[0], Tensor) and depth else None

    def _projected(self, case: Case, output: ModuleOutput, last: Known, depth: int) -> tuple[Known, ...] | None:
        """The sizes of a linear layer's output: those of its input except the last one."""
        layer = case.layer(resolved(output.parents[0]))
        if layer is None or layer.kind != _LINEAR or len(output.parents) < 2:
            return None
        sizes = self._known_sizes(case, output.parents[1], depth - 1)
        return (*sizes[:-1], last) if sizes else None

    def _transposed(self, case: Case, value: Tensor, depth: int) -> tuple[Known, ...] | None:
        """The sizes after `transpose` of a tensor with unpacked shape."""
        transfer = table.OPERATORS.get(value.op)
        if transfer is None or transfer.kind != table.TRANSPOSE or value.site is None:
            return None
        call = operations.operation(case, value, transfer, ROOT)
        operand, first, second = call.get("self"), call.integer("dim0"), call.integer("dim1")
        sizes = list(self._known_sizes(case, operand, depth - 1) or ()) if operand is not None else []
        if first is None or second is None or not all(-len(sizes) <= item < len(sizes) for item in (first, second)):
            return None
        sizes[first], sizes[second] = sizes[second], sizes[first]
        return tuple(sizes)


def _takes_channels(sizes: Sequence[Known], asked: Sequence[Known]) -> bool:
    """Whether a view forms rows of channels, dimension 1, although the positions follow them: `x.view(-1, c)`."""
    channels = asked[1] if len(asked) == 2 and asked[0] == _REST else None
    has_positions = all(size is None or size.number != 1 for size in sizes[2:])
    return channels is not None and bool(channels.symbols) and channels == sizes[1] and has_positions


def _is_product(whole: layout.Part, first: layout.Part, second: layout.Part) -> bool:
    """Whether a number is the product of two sizes, by their values or by the numbers that the code multiplies."""
    product = product_of([first.size, second.size])
    if product is not None and product == whole.size:
        return True
    is_made = isinstance(whole.number, Tensor) and whole.number.op == operators.MUL
    factors = list(map(resolved, whole.number.parents)) if is_made and whole.number is not None else []
    return len(factors) == 2 and factors in ([first.number, second.number], [second.number, first.number])


def _counts_states(size: Symbol, states: Sequence[Value]) -> bool:
    """Whether a size may be the number of states: the first size of a layer's input or output state."""
    whole = size.source[0] if isinstance(size.source, tuple) else size.source
    is_state = isinstance(whole, Value) and layer_of_state(whole) is not None
    return (is_state and size.dimension == 0) or whole in states


def _ranks(program: Program) -> Iterator[tuple[Value, int]]:
    """The number of dimensions of a tensor with unpacked shape: `b, c, h, w = x.shape`."""
    counts: dict[Value, set[int]] = {}
    numbers = program.observations.numbers
    for number, (how, operands, _) in numbers.items():
        shape = numbers.get(operands[0]) if operands and how in _PARTS else None
        if shape is None or not is_shape(shape):
            continue
        node = program.tree.node(number.site) if number.site is not None else None
        around = program.tree.parent(node) if node is not None else None
        if isinstance(around, (ast.Tuple, ast.List)) and isinstance(around.ctx, ast.Store):
            if not any(isinstance(item, ast.Starred) for item in around.elts):
                counts.setdefault(resolved(shape[1][0]), set()).add(len(around.elts))
    yield from ((value, *found) for value, found in counts.items() if len(found) == 1)  # type: ignore[misc]


_PARTS = frozenset({"getitem"})


def _displaced(sizes: Sequence[Known], is_all: bool, asked: Sequence[Known]) -> tuple[int, int] | None:
    """The first dimension requested at a wrong place: before or after it are other elements."""
    own = {symbol for size in sizes if size is not None for symbol in size.symbols}
    has_foreign = any(size is None or (size != _REST and not size.symbols <= own) for size in asked)
    rest = _rest(sizes, asked) if is_all and len(sizes) >= _IMAGE else None
    asked = [rest if size == _REST else size for size in asked]
    named = {symbol for size in asked if size is not None for symbol in size.symbols}
    if is_all and _has_other_number(product_of(sizes), product_of(asked)):
        return None
    for after, size in enumerate(asked):
        if not _is_one_factor(size) or _is_asked_again(size, asked) or list(sizes).count(size) != 1:
            continue
        if _is_number(size) and has_foreign:
            continue  # another size may be the same number
        before = list(sizes).index(size)
        front = product_of(sizes[:before]), product_of(asked[:after])
        behind = product_of(sizes[before + 1 :]) if is_all else None, product_of(asked[after + 1 :])
        if any(_differ(*pair, named, is_number=_is_number(size)) for pair in (front, behind)):
            return before, after
    return None


def _rest(sizes: Sequence[Known], asked: Sequence[Known]) -> Known:
    """The size of -1 behind another size: what the other sizes leave over. None if it is not known."""
    others = product_of([size for size in asked if size != _REST])
    whole = product_of(sizes)
    is_one = list(asked).count(_REST) == 1 and asked[0] != _REST
    return whole.divided_by(others) if is_one and whole is not None and others is not None else None


def _only_adds_ones(sizes: Sequence[Known], asked: Sequence[Known]) -> bool:
    """Whether a view keeps the order and only adds sizes of 1, if the tensor has no more dimensions than are named.

    `x.view(layers, x.size(0), x.size(1))` of a matrix is valid for one layer.
    """
    first, second = product_of(sizes), product_of(asked)
    if first is None or second is None or len(first.terms) != 1 or len(second.terms) != 1:
        return False
    more, fewer = _left_over(first, second)
    rest = [size for size in asked if size is None or not size.symbols or not fewer.keys() >= size.symbols]
    return not more and len(rest) < len(asked) and _displaced(sizes, True, rest) is None


def _is_asked_again(size: Known, asked: Sequence[Known]) -> bool:
    """Whether another requested dimension has this size, or a product with it: `b * h * w, c, h, w`."""
    symbols = size.symbols if size is not None else frozenset()
    holding = [item for item in asked if item == size or (item is not None and not symbols.isdisjoint(item.symbols))]
    return len(holding) > 1


def _is_number(size: Known) -> bool:
    return size is not None and size.number is not None


def _is_one_factor(size: Known) -> bool:
    """Whether a size is a single factor: 1 may be anywhere."""
    if size is None or len(size.terms) != 1:
        return False
    (product, times), *_ = size.terms
    return (len(product) == 1 and times == 1) or (not product and times > 1)


def _has_other_number(first: Known, second: Known) -> bool:
    """Whether two products are equal only if the extra factors are 1: not `n` and `h * w`."""
    if first is None or second is None:
        return False
    if len(first.terms) != 1 or len(second.terms) != 1:
        return True
    more, fewer = _left_over(first, second)
    return bool(more) != bool(fewer) or (not more and first != second)


def _differ(first: Known, second: Known, named: set[Hashable], *, is_number: bool) -> bool:
    """Whether two numbers of elements differ, by factors that the view names; for a number by one symbol or more."""
    if first is None or second is None or len(first.terms) != 1 or len(second.terms) != 1:
        return False
    more, fewer = _left_over(first, second)
    (_, times), (_, others) = *first.terms, *second.terms
    is_other = bool(more or fewer) or (times != others and not is_number)
    return is_other and named.issuperset(more + fewer) and min(times, others) > 0


def _left_over(first: Size, second: Size) -> tuple[Counter[Hashable], Counter[Hashable]]:
    """The symbols only in the first product, and those only in the second."""
    (left, _), (right, _) = *first.terms, *second.terms
    return Counter(left) - Counter(right), Counter(right) - Counter(left)
