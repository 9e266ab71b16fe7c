"""The files around the package (pipelines, issue forms, action and citation) agree with it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchlint import addresses

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*-*.yml"))


def read(path: Path) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(path.read_text("utf-8"))


def release_script() -> ModuleType:
    """The script that the release runs first."""
    spec = importlib.util.spec_from_file_location("changes", ROOT / ".ci" / "changes.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_citation_has_the_version_and_its_date() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert f"## [{PROJECT['version']}] - {citation['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_documents_name_the_version() -> None:
    """Hooks and actions are pinned to a tag."""
    for path in (ROOT / "docs" / "guides").glob("*.md"):
        assert set(re.findall(r"(?:rev: |torchlint@)v([\d.]+)", path.read_text("utf-8"))) <= {PROJECT["version"]}
    extension = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text("utf-8"))["version"]
    assert f"torchlint-{extension}.vsix" in (ROOT / "docs" / "guides" / "editors.md").read_text("utf-8")


def test_release_notes_are_the_part_of_the_changelog() -> None:
    changes = release_script().changes
    said = changes(PROJECT["version"])
    assert said.startswith("### Added\n") and "## [" not in said
    with pytest.raises(SystemExit, match=r"and not 9\.9\.9"):
        changes("9.9.9")


def test_a_tag_is_refused_while_documents_say_that_nothing_is_released() -> None:
    if addresses.IS_RELEASED:
        release_script().check_switch()
    else:
        with pytest.raises(SystemExit, match="IS_RELEASED is not True"):
            release_script().check_switch()


def test_supported_pythons_are_tested() -> None:
    matrix = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    tested = {*matrix["python"], *(more["python"] for more in matrix["include"])}
    claimed = {found[1] for item in PROJECT["classifiers"] if (found := re.fullmatch(r".*:: (3\.\d+)", item))}
    assert tested == claimed
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_unless_a_job_says_more(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text("utf-8")
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "${{" not in step.get("run", ""), "what others write would be run by the shell"


def test_the_action_runs_no_text_of_its_inputs() -> None:
    action = read(ROOT / "action.yml")
    for step in action["runs"]["steps"]:
        assert "inputs." not in step.get("run", "")
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == action["inputs"].keys()


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms(path: Path) -> None:
    form = read(path)
    assert form.keys() == {"name", "description", "title", "labels", "body"}
    fields = form["body"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["type"] in {"input", "textarea"} and field["attributes"]["label"] for field in fields)


def test_three_kinds_of_reports_have_a_form() -> None:
    assert [path.stem for path in FORMS] == ["false-alarm", "missed-alarm", "wrong-verdict"]
