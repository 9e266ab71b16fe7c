from pathlib import Path

import pytest

from torchlint import testing

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("case", testing.cases(FIXTURES), ids=str)
def test_fixture(case, bless):
    problems = case.problems(bless=bless)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("rule", testing.rules_of("torchlint_mine"))
def test_examples(rule):
    problems = testing.example_problems(rule)
    assert not problems, "\n".join(problems)
