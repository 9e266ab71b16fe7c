"""Pages that answer by rules name rules that there are, and say which are previews."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint.engine import registry

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize(("page", "least"), [("recipes.md", 30), ("compared.md", 15)])
def test_rules_are_named_as_they_are(page: str, least: int) -> None:
    previews = {rule.rule_name(): rule.preview for rule in registry.rules()}
    text = (DOCS / page).read_text("utf-8")
    text = text[text.index("\n## SonarPython\n") :] if page == "compared.md" else text
    named = {name: bool(mark) for name, mark in re.findall(r"`([a-z]+(?:-[a-z]+)+)`( \(p\))?", text)}
    assert len(named) > least
    assert named == {name: previews[name] for name in named}
