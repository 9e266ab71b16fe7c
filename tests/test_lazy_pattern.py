"""Every pattern that is compiled late can be compiled, and matches as one that was compiled at once."""

from __future__ import annotations

import gc
import re

import pytest

from torchlint.engine.rule_table import builtin_rules
from torchlint.lazy_pattern import LazyPattern


def test_as_if_compiled() -> None:
    lazy, compiled = LazyPattern("a(b?)c", re.IGNORECASE), re.compile("a(b?)c", re.IGNORECASE)
    for text in ("ABC", "xac", "acx", "b"):
        for how in ("search", "match", "fullmatch"):
            found, expected = getattr(lazy, how)(text), getattr(compiled, how)(text)
            assert (found and found.span()) == (expected and expected.span())


def test_all_matches() -> None:
    lazy, compiled = LazyPattern(rb"(\w)="), re.compile(rb"(\w)=")
    data = b"a=1; b=2; c=3"
    assert [found.span() for found in lazy.finditer(data, 1)] == [found.span() for found in compiled.finditer(data, 1)]
    assert lazy.findall(data, 0, 9) == compiled.findall(data, 0, 9) == [b"a", b"b"]
    assert lazy.sub(rb"\1 = ", data) == compiled.sub(rb"\1 = ", data)


def test_each_can_be_compiled() -> None:
    for rule in builtin_rules():
        rule.load()
    gc.unfreeze()  # a test that lints much has frozen them
    patterns = [item for item in gc.get_objects() if type(item) is LazyPattern]
    assert len(patterns) > 100
    for pattern in patterns:
        re.compile(pattern.pattern, pattern.flags)


def test_a_wrong_one_is_found_when_it_is_used() -> None:
    wrong = LazyPattern("(")
    with pytest.raises(re.error):
        wrong.search("")
