"""Where `inplace-on-saved-tensor` says that a backward will raise, it does: random programs are linted and run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.optional import optional
from tests.verify.saved_tensor_programs import programs
from torchlint import SourceFile, lint, select

torch = optional("torch")
pytestmark = pytest.mark.needs("torch")

NUMBER = 150
RULES = select(["inplace-on-saved-tensor"])


def raising(code: str) -> tuple[set[int], set[int]]:
    """The programs whose backward raises since something was changed in place; and those that run to their end."""
    names: dict[str, Any] = {}
    exec(code, names)
    raised, fine = set[int](), set[int]()
    for index in range(NUMBER):
        ends = [_end(names[f"f{index}"], flag) for flag in (True, False)]
        if any("modified by an inplace operation" in end for end in ends):
            raised.add(index)
        elif not any(ends):
            fine.add(index)
    return raised, fine


def _end(program: Callable[..., None], flag: bool) -> str:
    torch.manual_seed(0)
    x, w = torch.rand(3, 3) + 0.1, (torch.rand(3, 3) + 0.1).requires_grad_()
    try:
        program(x, w, flag)
    except (RuntimeError, UnboundLocalError) as error:
        return str(error)
    return ""


def reported(code: str) -> set[int]:
    """The programs of which the linter says that they raise."""
    starts = [number for number, line in enumerate(code.splitlines(), 1) if re.match(r"def f\d", line)]
    said = re.compile(r"through `\w+` raises")
    findings = [item for item in lint(SourceFile("a.py", code.encode()), RULES) if said.search(item.message)]
    return {sum(start <= item.span.start.line for start in starts) - 1 for item in findings}


def test_what_is_said_to_raise_raises() -> None:
    said, true, wrong, missed = 0, 0, set[tuple[int, int]](), 0
    for seed in range(6):
        code = programs(seed, NUMBER)
        raised, fine = raising(code)
        found = reported(code)
        said, true = said + len(found), true + len(found & raised)
        wrong |= {(seed, index) for index in found & fine}
        missed += len(raised - found)
    assert len(wrong) <= 0.01 * said, (wrong, said)
    assert true > missed, (true, missed)
