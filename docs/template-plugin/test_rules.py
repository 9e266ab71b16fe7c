from pathlib import Path

import pytest

from torchlint import testing

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("case", testing.cases(FIXTURES), ids=str)
def test_fixture(case, bless):
    assert case.problems(bless=bless) == []


@pytest.mark.parametrize("rule", testing.rules_of("torchlint_mine"))
def test_examples(rule):
    assert testing.example_problems(rule) == []
