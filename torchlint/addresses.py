"""The addresses of the project. To move it, edit these and run `python tests/test_addresses.py`."""

from __future__ import annotations

REPOSITORY = "https://github.com/torchlint/torchlint"
SITE = "https://torchlint.github.io/torchlint"
"""The documentation, made of `docs/`."""
PACKAGE = "https://pypi.org/project/torchlint"


def rule_page(name: str) -> str:
    """The page of a built-in rule, or of a check of the engine."""
    return f"{SITE}/rules/{name}/"
