"""A plugin of pytest: `--bless` writes what fixes make of the fixtures. `conftest.py` names it in `pytest_plugins`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what the fixes make of the fixtures: <name>.fixed.py")


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether fixed fixtures are to be written, and not compared with what was written before."""
    return bool(request.config.getoption("--bless"))
