"""Which tests are slow or skipped; running programs as a user would; rules that find what a test wants found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar, NoReturn
from zlib import crc32

import libcst as cst
import pytest
from hypothesis import HealthCheck, settings

from torchlint import Category, Rule
from torchlint.engine import registry
from torchlint.testing.blessing import bless, pytest_addoption

__all__ = ["bless", "pytest_addoption"]

_NUMBERS = map(str, count())
_SLOW_FOLDERS = {"server", "verify"}
_SLOW_FIXTURES = {"run"}
_TORCH_FIXTURES = {"nursery", "start", "verify"}
"""Fixtures that run programs which train."""
SOURCES = {
    "torch": "torch==2.13.0",
    "yaml": "pyyaml",
    "mkdocs": "-e '.[docs]'",
    "material": "-e '.[docs]'",
    "rich": "-e '.[docs]'",
}
"""Modules that a test may need beyond the extra `test`, and the argument of `pip install` that provides each."""


def pytest_configure(config: pytest.Config) -> None:
    """Without the slow tests, properties are tried on few examples; a busy machine fails none of them."""
    examples = 15 if is_quick(config) else 60
    settings.register_profile(
        "torchlint", max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("torchlint")


def is_quick(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "not slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A quick run does not even import slow folders, and torch with them."""
    return True if is_quick(config) and collection_path.name in _SLOW_FOLDERS else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = {module for module in SOURCES if find_spec(module) is None}
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if item.path.parent.name in _SLOW_FOLDERS or not _SLOW_FIXTURES.isdisjoint(fixtures):
            item.add_marker(pytest.mark.slow)
        if not _TORCH_FIXTURES.isdisjoint(fixtures):
            item.add_marker(pytest.mark.needs("torch"))
        needed = {module for mark in item.iter_markers("needs") for module in mark.args}
        assert needed <= SOURCES.keys(), f"{item.nodeid} needs a module that the tests' conftest does not list"
        for module in sorted(needed & missing):
            item.add_marker(pytest.mark.skip(f"needs {module}: pip install {SOURCES[module]}"))
    _leave_half_out(config, items)


def _leave_half_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out half of the tests marked as halved or slow: which half, the text in `TORCHLINT_HALF` decides."""
    text = os.environ.get("TORCHLINT_HALF")
    if not text:
        return
    marked = (item for item in items if item.get_closest_marker("halved") or item.get_closest_marker("slow"))
    halved = set(marked)
    left_out = {item for item in halved if crc32(f"{text} {item.nodeid}".encode()) % 2}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", ()))
    reasons = Counter(place[2].removeprefix("Skipped: ") for place in skipped if isinstance(place, tuple))
    if reasons:
        terminalreporter.section("skipped")
    for reason, number in reasons.most_common():
        terminalreporter.line(f"{number} {'test' if number == 1 else 'tests'}: {reason}")


@pytest.fixture(autouse=True)
def only_slow_tests_start_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `pytest -m "not slow"` stays quick."""

    def refused(*_: Any, **__: Any) -> NoReturn:
        pytest.fail("a test that starts a process is to be marked as slow")

    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(subprocess.Popen, "__init__", refused)
        monkeypatch.setattr(BaseProcess, "start", refused)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, which is not there yet: each test has its own, and nobody's home is touched."""
    folder = tmp_path_factory.getbasetemp() / "caches" / next(_NUMBERS)
    monkeypatch.setenv("TORCHLINT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """Runs a command that must end with exit code `code`, and returns its output.

    `path` is the first folder that Python imports from.
    """

    def run(*command: str | Path, path: Path | None = None, cwd: Path | None = None, code: int = 0) -> str:
        environment = {**os.environ, "PYTHONPATH": str(path or ""), "NO_COLOR": "1"}
        done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, encoding="utf-8", timeout=600)
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return run


class BadCall(Rule):
    """A call of `bad`.

    ## What it does
    Finds `bad()`, for tests that must not depend on what the real rules find.
    """

    code = "XX001"
    category = Category.CORRECTNESS
    triggers = ((b"bad",),)
    options: ClassVar[Mapping[str, bool | int | str | tuple[str, ...]]] = {
        "limit": 3,
        "strict": False,
        "names": ("bad",),
        "title": "",
    }

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value in self.settings["names"]:  # type: ignore[operator]
            first = self.tree.module.body[0]
            self.report(node, "`bad` is bad", related=[(first, "the file begins here")], help="call `good`")


class Crash(Rule):
    """A call of `crash` crashes this rule."""

    code = "XX002"
    category = Category.SUSPICIOUS
    triggers = ((b"crash",),)

    def visit_Call(self, node: cst.Call) -> None:
        raise ValueError("no reason")


@pytest.fixture
def bad_call(monkeypatch: pytest.MonkeyPatch) -> type[Rule]:
    """Makes a rule that finds every `bad()`, and one that crashes on `crash()`, the only rules there are.

    Only forked processes know them. A thread that another test left would make torchlint start new processes instead.
    """
    if sys.platform == "linux":
        monkeypatch.setattr("torchlint.run.process_pool.may_fork", lambda: True)
    monkeypatch.setattr(registry, "rules", lambda: (BadCall, Crash))
    return BadCall
