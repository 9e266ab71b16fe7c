"""Long lists of cases, of which a quick run takes some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], *, every: int) -> list[Any]:
    """The cases for `parametrize`, tuples for several arguments: each `every`th as it is, the others slow."""
    slow = ((case if isinstance(case, tuple) else (case,), number % every != 0) for number, case in enumerate(cases))
    return [pytest.param(*case, marks=[pytest.mark.slow] if is_slow else []) for case, is_slow in slow]
