"""How a program is spelled decides nothing: whatever a rule finds, it is asked for."""

from __future__ import annotations

import pytest

from tests.spellings.agreement import findings, missed
from tests.spellings.programs import Program, kernels, plain, program, unusual
from tests.thinning import thinned
from torchlint import select
from torchlint.engine.rule_table import loaded

RULES = tuple(map(loaded, select(["ALL"], preview=True).rules))
PROGRAMS = 250
"""As many in the tests; `python -m tests.spellings 10000` compares more."""


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name or "harmless")
def test_kernels(kernel: Program) -> None:
    assert {finding.name for finding in findings(plain(kernel), RULES)} == ({kernel.name} - {""})


@pytest.mark.parametrize("tens", thinned(range(0, PROGRAMS, 10), every=5))
def test_programs(tens: int) -> None:
    wrong = {number: list(missed(program(number), RULES)) for number in range(tens, tens + 10)}
    assert not {number for number, found in wrong.items() if found}


@pytest.mark.parametrize("newline", thinned(["\n", "\r\n", "\r"], every=3), ids=repr)
@pytest.mark.parametrize("spelling", unusual(), ids=lambda spelling: spelling.name)
def test_unusual_spellings(spelling: Program, newline: str) -> None:
    data = spelling.code.replace("\n", newline).encode()
    assert findings(data, RULES), "the model finds something"
    assert not list(missed(data, RULES))
