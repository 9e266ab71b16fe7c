"""Time grows with the length of a program, not with its square, whatever it is that there is more of.

What is counted is calls of functions, Python's and C's: seconds depend on the machine, and on what else it does.
"""

from __future__ import annotations

import cProfile
import math
from collections.abc import Callable

import libcst as cst
import pytest

from tests.growth.programs import LOOP, PROGRAMS, Program
from torchlint import Category, Rule, Selection, SourceFile, lint, select
from torchlint.engine import run_rules
from torchlint.syntax.deep_stack import with_deep_stack

SIZE = 40
MOST = 1.3
"""The exponent: 1 is linear, 2 the square."""
KNOWN = {
    "activations in place": 1.5,
    "alternatives": 1.65,
    "loops that feed the next": 2.0,
    "one list of all losses": 1.4,
}
"""Programs that take more. In a chain of the first, each value shares its storage with all before it; each arm of the
second has a finding, and stands as deep as there are arms before it; each backward pass of the third goes through the
graphs of all loops before; each sum of the fourth has a graph through all losses."""


class Pairs(Rule):
    """Each call is looked at together with each loop."""

    code = "XX009"
    category = Category.PEDANTIC

    def visit_Call(self, node: cst.Call) -> None:
        if any(len(loop.body.body) > 9 for loop in self.tree.module.body if isinstance(loop, cst.For)):
            self.report(node, "a long loop is near")


def calls(text: str, selection: Selection) -> int:
    """How many calls linting takes; a program must be linted, and cleanly so."""
    source, profiler = SourceFile("train.py", text.encode()), cProfile.Profile()
    findings = with_deep_stack(lambda: profiler.runcall(lint, source, selection))
    assert {finding.name for finding in findings}.isdisjoint({"internal-error", "syntax-error", "unreadable-file"})
    return sum(entry.callcount for entry in profiler.getstats())


@pytest.fixture
def exponent(monkeypatch: pytest.MonkeyPatch) -> Callable[[Program, Selection], float]:
    """Measures how calls grow with the size of a program, beyond those that the smallest takes."""
    monkeypatch.setattr(run_rules, "with_deep_stack", lambda work: work())  # a thread has a profiler of its own

    def exponent(write: Program, selection: Selection) -> float:
        calls(write(1), selection)  # what is imported late
        least, small, large = (calls(write(size), selection) for size in (1, SIZE, 4 * SIZE))
        return math.log(max(1, large - least) / max(1, small - least, least // 10), 4)

    return exponent


@pytest.mark.slow
@pytest.mark.halved
@pytest.mark.parametrize("name", PROGRAMS)
def test_growth(name: str, exponent: Callable[[Program, Selection], float]) -> None:
    assert exponent(PROGRAMS[name], select(["all"], preview=True)) <= KNOWN.get(name, MOST)


def test_the_square_is_noticed(exponent: Callable[[Program, Selection], float]) -> None:
    assert exponent(lambda size: LOOP * size, Selection((Pairs,))) > MOST


def test_there_are_as_many_as_promised() -> None:
    assert len(PROGRAMS) >= 40
    assert len({write(3) for write in PROGRAMS.values()}) == len(PROGRAMS)
