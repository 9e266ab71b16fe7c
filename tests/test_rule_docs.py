"""Every built-in rule: one name everywhere, documentation in one form, fixtures, a line in the changelog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint import Category, Rule, Severity, testing
from torchlint.engine import registry
from torchlint.engine.documentation import TOPICS, markdown, topic
from torchlint.engine.examination import lint
from torchlint.engine.rule_table import builtin_rules
from torchlint.files.source import SourceFile
from torchlint.finding import Meta
from torchlint.verify.verdict import VERIFIABLE

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
HEADINGS = (
    "What it does",
    "Why is this bad?",
    "Example",
    "Severity",
    "Fix safety",
    "What verify shows",
    "Known limits",
    "Options",
    "References",
)
ALWAYS = HEADINGS[:3]
RULES = [rule.load() for rule in builtin_rules()]
ALL_FIXTURES = testing.fixtures(FIXTURES)

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rule_name())


def test_every_module_holds_one_rule() -> None:
    modules = {path.stem for path in (ROOT / "rules").glob("[!_]*.py")}
    assert modules == {rule.__module__.rpartition(".")[2] for rule in RULES}
    assert len(modules) == len(RULES)


def test_every_fixture_folder_has_a_rule() -> None:
    folders = {path.name for path in FIXTURES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {rule.rule_name().replace("-", "_") for rule in RULES}


def test_codes_are_unique() -> None:
    assert len({meta.code for meta in registry.metas()}) == len(registry.metas())


def test_a_code_without_a_topic_is_refused_by_name() -> None:
    meta = Meta("backward-in-function", "TL999", Category.SUSPICIOUS, "")
    with pytest.raises(
        ValueError, match=r"^backward-in-function: the code TL999 belongs to no topic; .*TL1xx \(The tr"
    ):
        topic(meta)


def test_contributing_lists_the_topics_and_uses_a_free_code() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert dict(re.findall(r"^ *\| `(TL\d)xx` \| (.*) \|$", text, re.M)) == TOPICS
    (code,) = set(re.findall(r"TL\d{3}", text))
    assert topic(Meta("backward-in-function", code, Category.SUSPICIOUS, ""))
    assert code not in {rule.code for rule in RULES}


@each_rule
def test_one_name(rule: type[Rule]) -> None:
    name = rule.rule_name()
    file = name.replace("-", "_")
    assert rule.__module__ == f"torchlint.rules.{file}"
    assert re.fullmatch(r"TL\d{3}", rule.code)
    assert topic(rule.meta()) != TOPICS["TL0"], "TL0xx is for what torchlint itself says of files and comments"
    assert not re.match(r"(no|check|avoid|dont)-", name), "a name states the defect"
    for fixture in ("bad.py", "good.py"):
        assert (FIXTURES / file / fixture).is_file()


@each_rule
def test_documentation(rule: type[Rule]) -> None:
    documentation = rule.meta().documentation
    headings = re.findall(r"^## (.*)$", documentation, re.M)
    assert headings == [heading for heading in HEADINGS if heading in headings]
    assert set(ALWAYS) <= set(headings)
    assert ("Options" in headings) == bool(rule.options)
    assert ("What verify shows" in headings) == (rule.rule_name() in VERIFIABLE)
    summary, blank = documentation.split("\n")[:2]
    assert not blank
    assert summary.endswith(".")
    assert ("Severity" in headings) == (
        " or " in markdown(rule.meta()).split("\n")[2].partition("severity:")[2].partition(";")[0]
    )
    assert len(summary) <= 80


@pytest.mark.slow
@each_rule
def test_severity(rule: type[Rule]) -> None:
    """It is that of the category in `bad.py`; the rule's fixtures show each other that the documentation names."""
    documented = re.search(r"^## Severity\n((?:.+\n?)+)", rule.meta().documentation, re.M)
    promised = rule.category.severity
    said = {kind for kind in Severity if documented and re.search(rf"\b{kind.value}\b", documented[1])}
    own = [fixture for fixture in ALL_FIXTURES if fixture.rule == rule.rule_name()]
    shown = own if said else [fixture for fixture in own if fixture.path.name == "bad.py"]
    found = [finding for fixture in shown for finding in fixture.findings() if finding.code == rule.code]
    assert {finding.severity for finding in found} == (said or {promised})
    assert not said or said > {promised}


@each_rule
def test_examples(rule: type[Rule]) -> None:
    assert testing.example_problems(rule) == []


@each_rule
def test_changelog(rule: type[Rule]) -> None:
    assert f"`{rule.rule_name()}` ({rule.code})" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_known_limits_are_documented() -> None:
    pinned = {name for _, name in testing.known_limits(FIXTURES)}
    documented = {rule.rule_name() for rule in RULES if "## Known limits" in rule.meta().documentation}
    assert pinned == documented


@each_rule
def test_the_example_of_a_default_rule_is_reported_by_default(rule: type[Rule]) -> None:
    if rule.preview or not rule.category.on_by_default:
        return
    (example,) = re.findall(r"^## Example\n```python\n(.*?)^```$", rule.meta().documentation, re.M | re.S)
    found = lint(SourceFile("example.py", example.encode()), registry.select())
    assert rule.code in {finding.code for finding in found}
