"""For authors of rules: fixtures and examples that hold a rule to what it says."""

from torchlint.testing.harness import Case, Fixture, cases, example_problems, fixtures, known_limits, rules_of

__all__ = ["Case", "Fixture", "cases", "example_problems", "fixtures", "known_limits", "rules_of"]
