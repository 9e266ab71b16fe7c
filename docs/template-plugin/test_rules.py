from pathlib import Path

import pytest
from torchlint_mine.cleared_twice import ClearedTwice

from torchlint import testing

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("case", testing.cases(FIXTURES), ids=str)
def test_fixture(case, bless):
    assert case.problems(bless=bless) == []


@pytest.mark.parametrize("rule", [ClearedTwice])
def test_examples(rule):
    assert testing.example_problems(rule) == []
