"""Every fixture of every built-in rule, under every check of the harness; and what only the path of a file decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.thinning import thinned
from torchlint import Finding, SourceFile, testing
from torchlint.cli import cli
from torchlint.engine import examination, registry
from torchlint.engine.registry import Selection

VARIANTS = ("tabs", "two-spaces", "crlf", "suppressed")
FIXTURES = Path(__file__).parent.parent / "fixtures"


def cases() -> list[Any]:
    """All checks, but each fixture in one of the variants: most rules meet all of them.

    A quick run compares the markers of all fixtures, and makes some of the other checks.
    """
    every = [case for case in testing.cases(FIXTURES) if case.check != "without-fixes"]  # in test_fixes_on_demand.py
    number = {fixture: count for count, fixture in enumerate(dict.fromkeys(case.fixture for case in every))}
    variant = {fixture: VARIANTS[count % len(VARIANTS)] for fixture, count in number.items()}
    made = [case for case in every if case.check not in VARIANTS or case.check == variant[case.fixture]]
    others = iter(thinned((case for case in made if case.check != "markers"), every=60))
    return [case if case.check == "markers" else next(others) for case in made]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_fixture(case: testing.Case, bless: bool) -> None:
    problems = case.problems(bless=bless)
    assert not problems, "\n" + "\n".join(problems)
    if case.check == "markers":
        for finding in case.fixture.findings():
            check_texts(finding)


def check_texts(finding: Finding) -> None:
    """Messages and help texts: lower case, no full stop, one line."""
    related = [item.message for item in finding.related]
    for text in (finding.message, *related, *filter(None, [finding.help])):
        assert text, finding
        assert not text[0].isupper() or text.split()[0].isupper(), text
        assert not text.endswith("."), text
        assert "\n" not in text, text


@pytest.mark.parametrize(("path", "found"), [("nets.py", 2), ("tests/test_nets.py", 1)])
def test_a_softmax_of_a_test_may_be_a_token(path: str, found: int) -> None:
    text = b"import torch.nn as nn\nimport torch.nn.functional as F\nname, token = F.softmax(x), nn.Softmax()\n"
    rules = tuple(rule for rule in registry.rules() if rule.rule_name() == "implicit-softmax-dim")
    assert len(examination.lint(SourceFile(path, text), Selection(rules))) == found


@pytest.mark.parametrize(
    ("path", "function", "found"),
    [
        ("speed.py", "test_speed", True),
        ("tests/test_speed.py", "test_speed", False),
        ("tests/test_speed.py", "speed", True),
    ],
)
def test_a_test_may_empty_the_cache(path: str, function: str, found: bool) -> None:
    text = f"""\
import torch

def {function}(model, batches):
    for batch in batches:
        model(batch).sum().backward()
        torch.cuda.empty_cache()
"""
    rules = tuple(rule for rule in registry.rules() if rule.rule_name() == "empty-cache-in-loop")
    findings = examination.lint(SourceFile(path, text.encode()), Selection(rules, frozenset(), {}))
    assert bool(findings) is found


@pytest.mark.slow
def test_no_rule_crashes_on_all_fixtures_as_one_repository() -> None:
    """Rules ask about other files, such as those that set an attribute of the same name."""
    options = ("--isolated", "--no-cache", "--preview", "--output-format", "concise")
    output = CliRunner().invoke(cli, ["check", *options, str(FIXTURES)]).stdout
    assert "TL101" in output
    assert [line for line in output.splitlines() if "TL003" in line] == []
