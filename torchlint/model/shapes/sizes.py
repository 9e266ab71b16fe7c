"""Sizes of dimensions: numbers, and sums of products of unknown numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import prod

Monomial = tuple[Hashable, ...]
"""Multiplied symbols, in sorted order; () is 1."""


@dataclass(frozen=True)
class Symbol:
    """An unknown number, the same wherever it occurs: a dimension of a value, or an integer."""

    source: Hashable
    dimension: int | None = None
    is_constant: bool = False
    """Whether it is the same in all iterations."""


@dataclass(frozen=True)
class Size:
    """A sum of products; each product occurs once, with a coefficient other than 0."""

    terms: frozenset[tuple[Monomial, int]]

    @classmethod
    def of(cls, number: int) -> Size:
        return _size({(): number})

    @classmethod
    def symbol(cls, symbol: Symbol) -> Size:
        return _size({(symbol,): 1})

    @property
    def number(self) -> int | None:
        """The value as a number, if it is known."""
        if not self.terms:
            return 0
        first, count = next(iter(self.terms))
        return count if len(self.terms) == 1 and first == () else None

    @property
    def symbols(self) -> set[Hashable]:
        return {symbol for product, _ in self.terms for symbol in product}

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for product, count in other.terms:
            terms[product] = terms.get(product, 0) + count
        return _size(terms)

    def __mul__(self, other: Size) -> Size:
        terms: dict[Monomial, int] = {}
        for left, first in self.terms:
            for right, second in other.terms:
                product = tuple(sorted((*left, *right), key=hash))
                terms[product] = terms.get(product, 0) + first * second
        return _size(terms)

    def __sub__(self, other: Size) -> Size:
        return self + other * Size.of(-1)

    def divided_by(self, other: Size) -> Size | None:
        """The quotient if the division is exact for all values of the symbols; else None."""
        if len(other.terms) != 1:
            return Size.of(1) if self == other and self.terms else None
        (divisor, number), *_ = other.terms
        terms: dict[Monomial, int] = {}
        for product, count in self.terms:
            rest = _without(product, divisor)
            if rest is None or count % number:
                return None
            terms[rest] = count // number
        return _size(terms)


Known = Size | None
"""A size, or None if it is not known."""


def _size(terms: dict[Monomial, int]) -> Size:
    return Size(frozenset((product, count) for product, count in terms.items() if count))


ONE = Size.of(1)


def _without(product: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(product)
    for symbol in divisor:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def product_of(sizes: Iterable[Known]) -> Known:
    """The product of sizes, if all are known."""
    total = ONE
    for size in sizes:
        if size is None:
            return None
        total *= size
    return total


def numbers_of(sizes: Iterable[Known]) -> tuple[int, ...] | None:
    """Sizes as numbers, if all are."""
    found = [size.number if size is not None else None for size in sizes]
    known = tuple(number for number in found if number is not None)
    return known if len(known) == len(found) else None


def is_number(size: Known, number: int) -> bool:
    return size is not None and size.number == number


def differ(first: Known, second: Known) -> bool:
    """Whether two sizes surely differ: by a number, and all their symbols are constant."""
    if first is None or second is None or first == second:
        return False
    number = (first - second).number
    symbols = first.symbols | second.symbols
    return bool(number) and all(isinstance(symbol, Symbol) and symbol.is_constant for symbol in symbols)


def differ_by_parts(first: Known, second: Known) -> bool:
    """Whether two sizes of at least 1 surely differ: 2 * n and n."""
    if first is None or second is None or first == second:
        return False
    counts = [count for _, count in (first - second).terms]
    symbols = first.symbols | second.symbols
    is_constant = all(isinstance(symbol, Symbol) and symbol.is_constant for symbol in symbols)
    return is_constant and (all(count > 0 for count in counts) or all(count < 0 for count in counts))


def numel(sizes: Iterable[int]) -> int:
    """The number of elements."""
    return prod(sizes)
