"""docs/recipes.md names rules that there are, and says which are previews."""

from __future__ import annotations

import re
from pathlib import Path

from torchlint.engine import registry

RECIPES = (Path(__file__).parent.parent / "docs" / "recipes.md").read_text("utf-8")


def test_rules_are_named_as_they_are() -> None:
    previews = {rule.rule_name(): rule.preview for rule in registry.rules()}
    named = {name: bool(mark) for name, mark in re.findall(r"`([a-z]+(?:-[a-z]+)+)`( \(p\))?", RECIPES)}
    assert len(named) > 30
    assert named == {name: previews[name] for name in named}
