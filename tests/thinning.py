"""Long lists of cases: a quick run takes some, and continuous integration half of the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], *, every: int) -> list[Any]:
    """The cases for `parametrize`, tuples for several arguments; all but each `every`th are slow and halved."""
    slow = ((case if isinstance(case, tuple) else (case,), number % every != 0) for number, case in enumerate(cases))
    marks = [pytest.mark.slow, pytest.mark.halved]
    return [pytest.param(*case, marks=marks if is_slow else []) for case, is_slow in slow]
