"""Configuration files: what they mean, which applies, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint import Rule
from torchlint.project.config import ConfigError, Configurations, read
from torchlint.project.settings import Overrides, Settings


def written(folder: Path, text: str, name: str = "torchlint.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def settings_of(path: Path) -> Settings:
    settings = read(path)
    assert settings is not None
    return settings


def test_every_key(tmp_path: Path, bad_call: type[Rule]) -> None:
    path = written(
        tmp_path,
        """\
[tool.torchlint]
select = ["correctness", "XX"]
ignore = ["XX002"]
extend-select = ["pedantic"]
exclude = ["vendored/", "!build/"]
preview = true
force-exclude = true
per-file-ignores = { "tests/*" = ["bad-call"] }

[tool.torchlint.rules.bad-call]
limit = 5
strict = true
names = ["bad", "worse"]
title = "x"
""",
        "pyproject.toml",
    )
    settings = settings_of(path)
    assert settings.root == tmp_path
    assert settings.select == ("correctness", "XX")
    assert settings.exclude == ("vendored/", "!build/")
    assert settings.preview and settings.force_exclude
    selection = settings.selection(tmp_path / "a.py")
    assert selection.rules == (bad_call,)
    assert "unused-suppression" in selection.checks
    assert selection.options["bad-call"] == {
        "limit": 5,
        "strict": True,
        "names": ("bad", "worse"),
        "title": "x",
    }
    assert settings.selection(tmp_path / "tests" / "a.py").rules == ()
    assert settings.selection(tmp_path.parent / "elsewhere.py").rules == (bad_call,)


def test_the_nearest_file_applies(tmp_path: Path, bad_call: type[Rule]) -> None:
    written(tmp_path, "[tool.torchlint]\nselect = ['XX001']\n", "pyproject.toml")
    written(tmp_path / "a", "[tool.other]\n", "pyproject.toml")
    written(tmp_path / "b", "select = ['XX002']\n")
    written(tmp_path / "b", "[tool.torchlint]\nselect = ['all']\n", "pyproject.toml")
    found = Configurations()
    assert found.of_folder(tmp_path / "a" / "deep" / "er").select == ("XX001",)
    assert found.of_folder(tmp_path / "b").select == ("XX002",)
    assert Configurations(isolated=True).of_folder(tmp_path / "b").select is None
    everywhere = Configurations(file=tmp_path / "b" / "torchlint.toml")
    assert everywhere.of_folder(tmp_path / "a").select == ("XX002",)


def test_the_command_line_goes_first(tmp_path: Path, bad_call: type[Rule]) -> None:
    written(tmp_path, "select = ['XX001']\nignore = ['XX002']\n")
    chosen = Configurations(Overrides(select=("XX002",))).of_folder(tmp_path)
    assert [rule.code for rule in chosen.selection(tmp_path / "a.py").rules] == ["XX002"]
    fewer = Configurations(Overrides(ignore=("bad-call",))).of_folder(tmp_path)
    assert fewer.selection(tmp_path / "a.py").rules == ()


def test_a_pyproject_of_others_is_not_even_parsed(tmp_path: Path) -> None:
    assert read(written(tmp_path, "this is [no toml", "pyproject.toml")) is None
    assert read(written(tmp_path, "[project]\nname = 'torchlint-demo'\n", "pyproject.toml")) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("selct = []", 1, "selct: unknown key; did you mean `select`?"),
        ("# one\nselect = 'TL101'", 2, "select: must be a list of strings, not a string"),
        ("select = ['bad-cal']", 1, "select: unknown rule or category `bad-cal`; did you mean `bad-call`?"),
        ("preview = 1", 1, "preview: must be true or false, not an integer"),
        ("exclude = [1]", 1, "exclude: must be a list of strings, not a list of other things"),
        ("\nper-file-ignores = []", 2, "per-file-ignores: must be a table, not a list"),
        ("[per-file-ignores]\n'a' = []\n'b' = ['bad']", 3, "per-file-ignores.b: unknown rule or category"),
        ("[rules.bad-cal]", 1, "rules.bad-cal: unknown key; did you mean `bad-call`?"),
        ("[rules.bad-call]\nlimt = 1", 2, "rules.bad-call.limt: unknown key; did you mean `limit`?"),
        ("preview = true\n[tool.torchlint]\n", 2, "tool.torchlint: leave this prefix out: it is for pyproject.toml"),
        ("[rules.bad-call]\nlimit = true", 2, "rules.bad-call.limit: must be an integer, not a boolean"),
        ("[rules]\nbad-call = { limit = 'a' }", 2, "rules.bad-call.limit: must be an integer, not a string"),
        ("[rules.bad-call]\nnames = 'a'", 2, "rules.bad-call.names: must be a list of strings"),
        ("[rules]\nbad-call = 1", 2, "rules.bad-call: must be a table, not an integer"),
        ("preview = true\nselect = [\n", 2, "invalid TOML"),
        ("a = \n", 1, "invalid TOML"),
    ],
)
def test_errors_name_file_line_key_and_what_was_meant(
    tmp_path: Path, bad_call: type[Rule], text: str, line: int, message: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}: {message}")


@pytest.mark.parametrize(
    "table", ["torchlint", "tools.torchlint", "tool.torchlnt", "tool.torch-lint", "tool.'torch_lint'"]
)
def test_a_table_under_another_name(tmp_path: Path, table: str) -> None:
    path = written(tmp_path, f"[project]\nname = 'x'\n[{table}]\nselect = []\n", "pyproject.toml")
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:3: unknown table `[")
    assert str(caught.value).endswith("did you mean `[tool.torchlint]`?")


@pytest.mark.parametrize("table", ["tool.torchfix", "tool.torchlint-more", "tool.pylint.main", "project.torchlint"])
def test_a_table_of_others(tmp_path: Path, table: str) -> None:
    assert read(written(tmp_path, f"[{table}]\nselect = []\n", "pyproject.toml")) is None


def test_the_line_is_that_of_the_right_table(tmp_path: Path) -> None:
    text = "[tool.other]\nselct = 1\n[tool . torchlint]\n\nselct = 1\n"
    with pytest.raises(ConfigError, match=r"pyproject\.toml:5: tool\.torchlint\.selct"):
        read(written(tmp_path, text, "pyproject.toml"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "torchlint.toml"
    path.write_bytes(b"\n\xff")
    with pytest.raises(ConfigError, match=r"torchlint\.toml:2: is not UTF-8"):
        read(path)
    path.write_bytes(b"\xef\xbb\xbfpreview = true\r\n")
    assert settings_of(path).preview


def test_a_named_file_must_speak_of_torchlint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no \[tool.torchlint\] table"):
        Configurations(file=written(tmp_path, "", "pyproject.toml"))
