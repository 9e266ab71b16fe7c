"""Services are told paths from the root of their repository, whatever folder torchlint runs in; JSON has no `..`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from torchlint import Finding, Position, Severity, SourceFile, Span
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
PLACE = Span(Position(1, 0), Position(1, 1))


def outcome(path: str) -> Outcome:
    finding = Finding(path, "some-rule", "TL999", "m", PLACE, Severity.ERROR)
    return Outcome((LintedFile(SourceFile(path, b"x\n"), (finding,)),), 1)


def of_github(path: str) -> str:
    found = re.search("file=(.*?),", render("github", outcome(path), Style()))
    assert found
    return found[1]


def of_gitlab(path: str) -> str:
    return str(json.loads(render("gitlab", outcome(path), Style()))[0]["location"]["path"])


def of_sarif(path: str) -> str:
    result = json.loads(render("sarif", outcome(path), Style()))["runs"][0]["results"][0]
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def of_junit(path: str) -> str:
    suite = ElementTree.fromstring(render("junit", outcome(path), Style()))[0]
    return str(suite.get("file"))


def of_json(path: str) -> str:
    return str(json.loads(render("json", outcome(path), Style()))[0]["uri"])


SERVICES = (of_github, of_gitlab, of_sarif, of_junit)
each_service = pytest.mark.parametrize("shown", SERVICES)
Shown = Callable[[str], str]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Git repository with `src/pkg/a.py` and `docs`, out of the reach of any service."""
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "repository"
    for folder in (".git", "src/pkg", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "pkg" / "a.py").write_text("x\n")
    monkeypatch.chdir(root)
    return root


@each_service
@pytest.mark.parametrize(
    ("folder", "path"),
    [(".", "src/pkg/a.py"), ("src", "pkg/a.py"), ("src/pkg", "./a.py"), ("docs", "../src/pkg/../pkg/a.py")],
)
def test_any_working_folder(
    repository: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown, folder: str, path: str
) -> None:
    monkeypatch.chdir(repository / folder)
    assert shown(path) == shown(str(repository / folder / path)) == "src/pkg/a.py"


@each_service
def test_a_working_folder_outside(repository: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    monkeypatch.chdir(repository.parent)
    assert shown("repository/src/pkg/a.py") == "src/pkg/a.py"


@each_service
@pytest.mark.parametrize("name", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_the_folder_that_a_service_names(
    repository: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown, name: str
) -> None:
    """It may hold the repository in a folder of its own, or one without `.git`."""
    monkeypatch.setenv(name, str(repository.parent))
    monkeypatch.chdir(repository / "src")
    assert shown("pkg/a.py") == "repository/src/pkg/a.py"
    monkeypatch.setenv(name, str(repository / "docs"))
    assert shown("pkg/a.py") == "src/pkg/a.py", "a folder that does not hold the file is not meant"
    monkeypatch.setenv(name, "")
    assert shown("pkg/a.py") == "src/pkg/a.py"


@each_service
def test_a_repository_inside_of_the_one_at_work(
    repository: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown
) -> None:
    (repository / "src" / ".git").touch()
    assert shown("src/pkg/a.py") == "src/pkg/a.py", "as with a submodule"
    monkeypatch.chdir(repository / "src")
    assert shown("pkg/a.py") == "pkg/a.py"


@each_service
def test_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    assert shown("src/a.py") == shown(str(tmp_path / "src" / "a.py")) == "src/a.py"
    monkeypatch.chdir(tmp_path / "src")
    absolute = (tmp_path / "a.py").as_uri() if shown is of_sarif else (tmp_path / "a.py").as_posix()
    assert shown("../a.py") == absolute.replace(":", "%3A" if shown is of_github else ":")


@links
@each_service
def test_links(repository: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    (repository / "alias").symlink_to(repository / "src")
    assert shown("alias/pkg/a.py") == "src/pkg/a.py", "Git knows no files below a link"
    assert shown("alias/../src/pkg/a.py") == "src/pkg/a.py"
    (repository.parent / "checkout").symlink_to(repository)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository.parent / "checkout"))
    assert shown("src/pkg/a.py") == "src/pkg/a.py"
    outside = repository.parent / "outside"
    outside.mkdir()
    (repository / "leads-out").symlink_to(outside)
    assert shown("leads-out/b.py") == "leads-out/b.py"


def test_addresses_in_json_are_normal(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = (repository / "src" / "pkg" / "a.py").as_uri()
    for path in ("src/pkg/a.py", "./src//pkg/a.py", "docs/../src/pkg/a.py"):
        assert of_json(path) == of_json(os.path.join(repository, path)) == expected
    monkeypatch.chdir(repository / "docs")
    assert of_json("../src/pkg/a.py") == expected


@links
def test_an_address_leads_to_the_file_through_links(repository: Path) -> None:
    (repository / "docs" / "alias").symlink_to(repository / "src" / "pkg")
    assert of_json("docs/alias/../pkg/a.py") == (repository / "src" / "pkg" / "a.py").as_uri()
