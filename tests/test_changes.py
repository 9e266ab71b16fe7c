"""Removals and deprecations of PyTorch, compared with the installed torch, and the releases of a project."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from torchlint.pytorch.changes import DEPRECATIONS, REMOVALS, REMOVED, Status
from torchlint.pytorch.releases import CURRENT, Release, Releases, required

PROBE = Path(__file__).with_name("probe_changes.py")
SOURCES = (Path(__file__).parents[1] / "docs" / "api-changes.md").read_text("utf-8")


def installed_torch() -> str:
    """The release of the installed torch, empty without one."""
    try:
        return ".".join(importlib.metadata.version("torch").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return ""


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.skipif(installed_torch() not in ("", ".".join(map(str, CURRENT))), reason=f"another torch than {CURRENT}")
def test_the_table_says_what_torch_does() -> None:
    done = subprocess.run([sys.executable, str(PROBE)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "nothing differs\n"), done.stdout + done.stderr


def test_each_use_has_one_entry() -> None:
    uses = Counter((change.name, change.keyword, change.lacks, change.until) for change in (*REMOVALS, *DEPRECATIONS))
    assert not [use for use, count in uses.items() if count > 1]


def test_what_ends_goes_on_as_something_else() -> None:
    """A deprecation that ends is a removal in the next release."""
    for change in (*REMOVALS, *DEPRECATIONS):
        if change.until != CURRENT:
            later = [item for item in REMOVALS if (item.name, item.keyword) == (change.name, change.keyword)]
            assert change.since <= change.until and [item.since for item in later] == [_next(change.until)], change


def _next(release: Release) -> Release:
    return release[0], release[1] + 1


def test_removals_raise_and_deprecations_do_not() -> None:
    assert {change.status for change in REMOVALS} == REMOVED
    assert {change.status for change in DEPRECATIONS} == {Status.WARNS, Status.DOCUMENTED}
    assert all(change.instead for change in (*REMOVALS, *DEPRECATIONS))


def test_each_release_has_a_source() -> None:
    rows = [line.split(" | ") for line in SOURCES.splitlines() if line.startswith("| `")]
    for change in (*REMOVALS, *DEPRECATIONS):
        known = [row for row in rows if f"`{change.name}`" in row[0] or f"`{change.keyword}=` of all losses" in row[0]]
        said = [change.status.value, ".".join(map(str, change.since))]
        assert said in [row[1:3] for row in known], change
    said_of_all = {(change.status.value, ".".join(map(str, change.since))) for change in (*REMOVALS, *DEPRECATIONS)}
    assert {(row[1], row[2]) for row in rows} <= said_of_all


def test_nothing_is_newer_than_the_current_release() -> None:
    for change in (*REMOVALS, *DEPRECATIONS):
        assert change.since <= CURRENT and change.instead_since <= CURRENT, change.name


@pytest.mark.parametrize(
    ("requirement", "lowest", "highest"),
    [
        ("torch", CURRENT, CURRENT),
        ("torch>=1.8", (1, 8), CURRENT),
        ("torch >= 1.8, < 2", (1, 8), (1, 99)),
        ("torch>=1.8,<2.0.0", (1, 8), (1, 99)),
        ("torch<1.13", (1, 12), (1, 12)),
        ("torch<1.13.1", (1, 13), (1, 13)),
        ("torch==1.13.1+cu117", (1, 13), (1, 13)),
        ("torch==1.*", (1, 0), (1, 99)),
        ("torch==1.7.*", (1, 7), (1, 7)),
        ("torch~=1.9", (1, 9), (1, 99)),
        ("torch~=1.9.0", (1, 9), (1, 9)),
        ("torch[opt]>=2.1,!=2.2 ; python_version >= '3.9'", (2, 1), CURRENT),
        ("torch (>=1.4)", (1, 4), CURRENT),
        ("torch>1.10", (1, 10), CURRENT),
        ("torch>=99.1", CURRENT, CURRENT),
        ("torch @ https://example.org/torch-1.2.whl", CURRENT, CURRENT),
        ("torch>=1.8.0rc1", (1, 8), CURRENT),
        ("torch>=", CURRENT, CURRENT),
        ("torch<0", (0, 99), (0, 99)),
    ],
)
def test_a_requirement(requirement: str, lowest: Release, highest: Release) -> None:
    assert required([requirement]) == Releases(lowest, highest)


@pytest.mark.parametrize(
    "other", ["torchvision>=0.8", "torch-geometric==1.2", "torch_xla", "pytorch==1", "", "# torch"]
)
def test_a_requirement_of_something_else(other: str) -> None:
    assert required([other]) is None


def test_several_requirements_are_alternatives() -> None:
    found = required(["torch==1.4 ; python_version < '3.9'", "numpy", "torch>=2.1 ; python_version >= '3.9'"])
    assert found == Releases((1, 4), CURRENT)
