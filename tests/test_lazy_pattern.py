"""Every pattern that is compiled late can be compiled, and matches as one that was compiled at once."""

from __future__ import annotations

import re

import pytest

from torchlint.lazy_pattern import LazyPattern
from torchlint.pytorch import naming


def test_as_if_compiled() -> None:
    lazy, compiled = LazyPattern("a(b?)c", re.IGNORECASE), re.compile("a(b?)c", re.IGNORECASE)
    for text in ("ABC", "xac", "acx", "b"):
        for how in ("search", "match", "fullmatch"):
            found, expected = getattr(lazy, how)(text), getattr(compiled, how)(text)
            assert (found and found.span()) == (expected and expected.span())


@pytest.mark.parametrize("name", [name for name, value in vars(naming).items() if isinstance(value, LazyPattern)])
def test_each_can_be_compiled(name: str) -> None:
    assert getattr(naming, name).search("\n") is None


def test_a_wrong_one_is_found_when_it_is_used() -> None:
    wrong = LazyPattern("(")
    with pytest.raises(re.error):
        wrong.search("")
