"""Every fixture of every built-in rule, under every check of the harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint import testing

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.mark.parametrize("case", testing.cases(FIXTURES), ids=str)
def test_fixture(case: testing.Case, request: pytest.FixtureRequest) -> None:
    if case.check == "fixed" and request.config.getoption("--bless"):
        case.fixture.bless()
    problems = case.problems()
    assert not problems, "\n" + "\n".join(problems)
