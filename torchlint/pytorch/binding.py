"""The arguments of a call by their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

OTHER_NAMES = {"self": "input", "dim": "axis", "keepdim": "keepdims"}
"""Other names of parameters in PyTorch, some of them from NumPy."""


class Parameters:
    """The parameters of a callable in order; alternative names of one are written `self|input`.

    Parameters after a `*` are keyword-only.
    """

    __slots__ = ("_names", "by_keyword", "positional")

    def __init__(self, *parameters: str) -> None:
        by_position = parameters[: parameters.index("*")] if "*" in parameters else parameters
        self.positional = tuple(item.partition("|")[0] for item in by_position)
        self.by_keyword = parameters[len(by_position) + 1 :]
        self._names = {name: item.partition("|")[0] for item in parameters if item != "*" for name in item.split("|")}

    def name_of(self, keyword: str) -> str:
        """The parameter for a keyword, or the keyword itself."""
        return self._names.get(keyword, keyword)


class Bound(Generic[T]):
    """The arguments of a call by parameter, and those without a parameter."""

    __slots__ = ("complete", "rest", "values")

    def __init__(self, values: dict[str, T], rest: tuple[T, ...], *, complete: bool) -> None:
        self.values = values
        self.rest = rest
        self.complete = complete
        """Whether missing arguments have their defaults: not after `*` or `**`."""

    def get(self, parameter: str) -> T | None:
        """The argument for a parameter."""
        return self.values.get(parameter)


def bind(
    parameters: Parameters,
    positional: Sequence[T],
    keywords: Mapping[str, T],
    *,
    starred: Sequence[T] = (),
    receiver: T | None = None,
) -> Bound[T]:
    """Bind arguments as a call does; the `receiver` of a method is the first.

    `positional` are those before the first `*`; `starred` are the arguments after `*` and `**`, with unknown
    parameters.
    """
    ordered = positional if receiver is None else [receiver, *positional]
    values = dict(zip(parameters.positional, ordered, strict=False))
    rest = tuple(ordered[len(parameters.positional) :])
    for keyword, value in keywords.items():
        values.setdefault(parameters.name_of(keyword), value)
    return Bound(values, (*rest, *starred), complete=not starred)
