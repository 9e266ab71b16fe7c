"""The addresses of the project, and whether it is released.

After a change of an address run `python tests/test_addresses.py`, after one of `IS_RELEASED` `python
tests/test_releasing.py`: the documents follow.
"""

from __future__ import annotations

REPOSITORY = "https://github.com/torchlint/torchlint"
SITE = "https://torchlint.github.io/torchlint"
"""The documentation, made of `docs/`."""
PACKAGE = "https://pypi.org/project/torchlint"
IS_RELEASED = False
"""Whether the package index has a release."""


def rule_page(name: str) -> str:
    """The page of a built-in rule, or of a check of the engine."""
    return f"{SITE}/rules/{name}/"
