"""Types of tensors: their sizes, element type and strides, as far as these are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchlint.model.shapes.sizes import Known, numbers_of
from torchlint.pytorch.shapes import INTEGRAL

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from torchlint.syntax.python_ast import Site


@dataclass(frozen=True)
class TensorType:
    """The known facts about a tensor. With `is_open` there may be more dimensions before those in `sizes`."""

    sizes: tuple[Known, ...]
    is_open: bool = False
    dtype: str | None = None
    """`float32`, `int64`, `bool` ...; `float` is some type of floating point."""
    strides: tuple[int, ...] | None = None

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if it is known."""
        return None if self.is_open else len(self.sizes)

    def size(self, dimension: int) -> Known:
        """The size of a dimension, which may be counted from the end."""
        if dimension >= 0 and self.is_open:
            return None
        inside = -len(self.sizes) <= dimension < len(self.sizes)
        return self.sizes[dimension] if inside else None

    def with_sizes(self, sizes: Iterable[Known]) -> TensorType:
        """The same element type with other sizes, and unknown strides."""
        return TensorType(tuple(sizes), self.is_open, self.dtype)

    def with_dtype(self, dtype: str | None) -> TensorType:
        return replace(self, dtype=dtype)

    @property
    def is_floating(self) -> bool:
        return self.dtype is not None and self.dtype.startswith(("float", "bfloat"))

    @property
    def is_integral(self) -> bool:
        return self.dtype in INTEGRAL


ANY = TensorType((), is_open=True)
"""The type without known facts."""


def contiguous(sizes: Iterable[Known], dtype: str | None) -> TensorType:
    """A new tensor, contiguous in the order of its dimensions."""
    sizes = tuple(sizes)
    return TensorType(sizes, False, dtype, strides_of(sizes))


def strides_of(sizes: tuple[Known, ...]) -> tuple[int, ...] | None:
    """The strides of a contiguous tensor, if its sizes are numbers, and none is 0."""
    numbers = numbers_of(sizes)
    if numbers is None or 0 in numbers:
        return None
    strides, step = [], 1
    for number in reversed(numbers):
        strides.append(step)
        step *= number
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Misfit:
    """The reason why an operation raises: `what` (`shape`, `view` or `dtype`) does not fit, at `site`."""

    what: str
    site: Site
    reason: str
    """The text after the callee's name: "takes 20 features, but is given 30"."""
    order: int = 0
    related: tuple[tuple[Site, str], ...] = field(default=())


@dataclass(frozen=True)
class Choice:
    """A value with several alternatives, each of which is a case."""

    key: Hashable
    options: tuple[Hashable, ...]


Evaluated = TensorType | Misfit | Choice
