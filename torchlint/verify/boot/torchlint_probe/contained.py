"""An error of the probe itself is recorded and does not affect the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast


class _Troubled(Protocol):
    trouble: str


class Observer(Protocol):
    """An object that records its internal errors."""

    @property
    def trouble_of(self) -> _Troubled: ...


Method = TypeVar("Method", bound=Callable[..., Any])


def contained(method: Method) -> Method:
    """Wraps a method: it returns None instead of raising, and records the first error."""

    @functools.wraps(method)
    def safe(self: Observer, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as error:
            noted = self.trouble_of
            noted.trouble = noted.trouble or f"{type(error).__name__} in {method.__name__}: {error}"[:300]
            return None

    return cast("Method", safe)
