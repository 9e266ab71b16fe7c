"""One operation with its arguments by parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from torchlint.model.shapes import numbers
from torchlint.model.shapes.case import Case, Stop
from torchlint.model.shapes.scope import Scope
from torchlint.model.shapes.sizes import Known, Size
from torchlint.model.shapes.tensor_type import ANY, Misfit, TensorType
from torchlint.model.values import Plain, Tensor, Value, is_none, resolved
from torchlint.pytorch import shapes as table


@dataclass(eq=False)
class Operation:
    """An operation whose result is computed: its arguments by parameter, in a case."""

    case: Case
    value: Tensor
    scope: Scope
    transfer: table.Transfer
    arguments: dict[str, Value]
    rest: Sequence[Value]
    """The arguments of the variadic parameter."""
    is_complete: bool
    """Whether all arguments are known."""

    def misfit(self, reason: str, what: str = "shape") -> NoReturn:
        assert self.value.site is not None
        raise Stop(Misfit(what, self.value.site, reason, self.value.order))

    def get(self, name: str) -> Value | None:
        return self.arguments.get(name)

    def is_of_tensor(self, type_: TensorType) -> bool:
        """Whether an operand of this type is surely a tensor: arrays have methods with the same names."""
        made = self.case.observations.calls.get(self.value)
        return type_.dtype is not None or (made is not None and made[2] is None)

    def type_of(self, value: Value) -> TensorType:
        return self.case.type_of(value, self.scope)

    def operand(self, name: str = "self") -> TensorType:
        value = self.get(name)
        return self.type_of(value) if value is not None else ANY

    def number(self, name: str, default: int | None = None) -> Known:
        value = self.get(name)
        if value is None:
            return Size.of(default) if default is not None and self.is_complete else None
        return self.number_of(value)

    def number_of(self, value: Value) -> Known:
        return numbers.number(self.case, value, self.scope)

    def sizes_of(self, values: Sequence[Value]) -> tuple[Known, ...] | None:
        return numbers.sizes(self.case, values, self.scope)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An argument that is a literal number, or its default."""
        size = self.number(name, default)
        return size.number if size is not None else None

    def is_given(self, name: str) -> bool:
        """Whether an argument is present, or may be."""
        value = self.get(name)
        return not self.is_complete or (value is not None and not is_none(value))

    def flag(self, name: str) -> bool | None:
        """A literal that is False by default."""
        value = self.get(name)
        if value is None:
            return False if self.is_complete else None
        value = resolved(value)
        return value.constant if isinstance(value, Plain) and isinstance(value.constant, bool) else None

    def dimension(self, name: str, rank: int | None, default: int | None = None) -> int | None:
        """A literal dimension, counted from the front if the rank is known; raises if it does not exist."""
        given = self.integer(name, default)
        if given is None or rank is None:
            return given
        if not -max(rank, 1) <= given < max(rank, 1):
            self.misfit(f"uses dimension {given} of a tensor with {_dimensions(rank)}")
        return given % max(rank, 1)

    def with_rank(self, name: str, ranks: Sequence[int], type_: TensorType) -> TensorType:
        """An operand with one of these numbers of dimensions, as the operation requires."""
        value = self.get(name)
        if type_.rank is not None:
            if type_.rank not in ranks:
                wanted = " or ".join(map(str, ranks))
                self.misfit(f"takes an input of {wanted} dimensions, but is given {_dimensions(type_.rank)}")
            return type_
        return self.case.choose_rank(value, self.scope, ranks, type_) if value is not None else type_


def _dimensions(rank: int) -> str:
    return "1 dimension" if rank == 1 else f"{rank} dimensions"
