"""The settings of an editor are the same where they are read, where they are described, and where they are offered."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from torchlint.server.editor import EditorSettings
from torchlint.server.schema import SETTINGS

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
OF_THE_EXTENSION = {"path", "interpreter", "importStrategy", "trace.server"}
WRONG = {"array": ["no-such-rule"], "boolean": "yes", "integer": "50"}


def read(sent: object) -> tuple[EditorSettings, list[str]]:
    complaints: list[str] = []
    return EditorSettings.read(sent, complaints.append), complaints


def field(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def test_what_is_read_is_what_is_described() -> None:
    defaults = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(EditorSettings()).items()
    }
    assert {field(name): schema["default"] for name, schema in SETTINGS.items()} == defaults
    assert read({name: schema["default"] for name, schema in SETTINGS.items()}) == (EditorSettings(), [])


@pytest.mark.parametrize("name", SETTINGS)
def test_the_schema_says_what_is_refused(name: str) -> None:
    schema = SETTINGS[name]
    wrong = [
        WRONG[schema["type"]],
        *(schema[end] + step for end, step in (("minimum", -1), ("maximum", 1)) if end in schema),
    ]
    for value in wrong:
        assert len(read({name: value})[1]) == 1, value
    for end in ("minimum", "maximum"):
        if end in schema:
            assert read({name: schema[end]})[1] == []


def manifest(name: str) -> Any:
    return json.loads((EXTENSION / name).read_text("utf-8"))


def test_the_extension_offers_the_settings_of_the_server() -> None:
    properties = manifest("package.json")["contributes"]["configuration"]["properties"]
    offered = {name.removeprefix("torchlint."): dict(schema) for name, schema in properties.items()}
    assert all(schema.pop("scope") for schema in offered.values())
    assert offered.keys() - OF_THE_EXTENSION == SETTINGS.keys()
    assert {name: offered[name] for name in SETTINGS} == SETTINGS


def test_the_lock_file_is_for_any_registry() -> None:
    """A package is known by its digest; where it is fetched from is the business of who fetches it."""
    packages = manifest("package-lock.json")["packages"]
    assert manifest("package-lock.json")["version"] == manifest("package.json")["version"]
    assert all("integrity" in package for name, package in packages.items() if name)
    assert not any("resolved" in package for package in packages.values())


def test_the_extension_knows_the_schema_of_settings() -> None:
    """Even Better TOML reads it from there."""
    schema = json.loads((EXTENSION.parents[1] / "docs" / "torchlint.schema.json").read_text("utf-8"))
    validation = manifest("package.json")["contributes"]["tomlValidation"]
    assert validation == [{"fileMatch": "torchlint.toml", "url": schema["$id"]}]
