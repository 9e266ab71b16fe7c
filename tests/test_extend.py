"""Layers of configuration: what a file inherits, what the command line adds, and for whom a file is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hostile.conftest import needs_links
from torchlint import Rule, Severity, SourceFile, lint
from torchlint.project.config import ConfigError, Configurations, inline, read
from torchlint.project.settings import Overrides, Settings
from torchlint.project.versions import NoRequirement, satisfies


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """A repository, which is the working folder."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def settings_of(path: Path) -> Settings:
    settings = read(path)
    assert settings is not None
    return settings


def error(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read(path)
    return str(caught.value).removeprefix(f"{path}:")


BASE = """\
[tool.torchlint]
select = ["XX"]
ignore = ["XX002"]
exclude = ["made/"]
src = ["lib"]
preview = true
per-file-ignores = { "tests/*" = ["XX001"] }
severity = { XX001 = "hint", XX002 = "error" }

[tool.torchlint.rules.bad-call]
limit = 5
strict = true
"""


def test_a_nested_file_inherits_what_it_extends(tree: Path) -> None:
    base = write(tree / "pyproject.toml", BASE)
    nested = write(
        tree / "sub" / "torchlint.toml",
        "extend = '../pyproject.toml'\nignore = ['pedantic']\npreview = false\nseverity = { XX001 = 'warning' }\n"
        "[rules.bad-call]\nlimit = 7\n",
    )
    settings = settings_of(nested)
    assert settings.files == (nested, base)
    assert (settings.select, settings.ignore, settings.preview) == (("XX",), ("XX002", "pedantic"), False)
    assert settings.rules == {"bad-call": {"limit": 7, "strict": True}}
    assert settings.origins["select"] == "pyproject.toml:2"
    assert settings.origins["ignore"] == "sub/torchlint.toml:2"
    selection = settings.selection(tree / "a.py")
    assert selection.severities == {"bad-call": Severity.WARNING, "crash": Severity.ERROR}


def test_inherited_patterns_are_seen_from_their_own_file(tree: Path) -> None:
    write(tree / "pyproject.toml", BASE)
    write(tree / "lib" / "a.py", "")
    settings = settings_of(write(tree / "sub" / "torchlint.toml", "extend = '../pyproject.toml'\n"))
    assert settings.root == tree / "sub" and settings.root_of("exclude") == tree
    assert settings.selection(tree / "tests" / "a.py").rules == ()
    assert settings.selection(tree / "sub" / "tests" / "a.py").rules != ()
    assert settings._folders == (str(tree / "lib"),)
    own = settings_of(write(tree / "sub" / "torchlint.toml", "extend = '../pyproject.toml'\nexclude = ['x/']\n"))
    assert (own.exclude, own.root_of("exclude")) == (("x/",), tree / "sub")


def test_a_choice_replaces_the_whole_choice_below(tree: Path) -> None:
    write(tree / "base.toml", "ignore = ['XX001']\nextend-select = ['pedantic']\nunfixable = ['XX']\n")
    path = write(tree / "torchlint.toml", "extend = 'base.toml'\nselect = ['XX001']\nfixable = ['all']\n")
    settings = settings_of(path)
    assert (settings.ignore, settings.extend_select, settings.unfixable) == ((), (), ())
    assert "ignore" not in settings.origins
    added = settings_of(write(tree / "torchlint.toml", "extend = 'base.toml'\nextend-select = ['XX002']\n"))
    assert added.extend_select == ("pedantic", "XX002")


def test_without_extend_nothing_is_inherited(tree: Path) -> None:
    write(tree / "pyproject.toml", BASE)
    write(tree / "sub" / "torchlint.toml", "preview = true\n")
    settings = Configurations().of_folder(tree / "sub")
    assert (settings.select, settings.files) == (None, (tree / "sub" / "torchlint.toml",))


def test_a_chain(tree: Path) -> None:
    for number in range(20):
        write(tree / f"{number}.toml", f"extend = '{number + 1}.toml'\n")
    write(tree / "20.toml", "ignore = ['XX001']\n")
    assert settings_of(tree / "0.toml").ignore == ("XX001",)
    write(tree / "20.toml", "extend = '21.toml'\n")
    write(tree / "21.toml", "")
    assert error(tree / "0.toml") == f"{tree / '20.toml'}:1: extend: more than 20 files extend one another"


def test_a_circle(tree: Path) -> None:
    write(tree / "a.toml", "extend = 'b.toml'\n")
    write(tree / "b.toml", "\nextend = './a.toml'\n")
    assert error(tree / "a.toml") == f"{tree / 'b.toml'}:2: extend: a.toml leads back here"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'none.toml'", "extend: there is no file none.toml"),
        ("'other/pyproject.toml'", "extend: there is no [tool.torchlint] table in other/pyproject.toml"),
        ("''", "extend: must be a path"),
        ("5", "extend: must be a string, not an integer"),
        ("'/etc/x.toml'", "extend: must be relative to the folder of this file, not `/etc/x.toml`"),
        ("'C:\\x.toml'", "extend: must be relative to the folder of this file, not `C:\\x.toml`"),
        ("'\\\\host\\x.toml'", "extend: must be relative to the folder of this file, not `\\\\host\\x.toml`"),
        ('"a\\u0000b"', "extend: must be a path without control characters"),
        ("'../x.toml'", "extend: `../x.toml` leads out of "),
        ("'sub/../../x.toml'", "extend: `sub/../../x.toml` leads out of "),
    ],
)
def test_what_cannot_be_extended(tree: Path, value: str, message: str) -> None:
    write(tree / "other" / "pyproject.toml", "[tool.other]\n")
    assert error(write(tree / "torchlint.toml", f"\nextend = {value}\n")).startswith(f"2: {message}")


@needs_links
@pytest.mark.parametrize("key", ["extend", "baseline", "cache-dir"])
def test_a_link_out_of_the_repository_is_refused(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, key: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    write(outside / "x.toml", "secret = 1\n")
    (tree / "link").symlink_to(outside)
    (tree / "x.toml").symlink_to(outside / "x.toml")
    for text in ("link/x.toml", "x.toml"):
        message = error(write(tree / "torchlint.toml", f"{key} = '{text}'\n"))
        assert message == f"1: {key}: `{text}`: a link leads out of {tree}"
    assert "`link`: a link leads out of" in error(write(tree / "torchlint.toml", "src = ['link']\n"))


def test_an_error_in_an_extended_file_names_that(tree: Path) -> None:
    base = write(tree / "base.toml", "preview = true\nselct = []\n")
    path = write(tree / "torchlint.toml", "extend = 'base.toml'\n")
    assert error(path) == f"{base}:2: selct: unknown key; did you mean `select`?"


def test_a_link_inside_may_be_extended(tree: Path) -> None:
    write(tree / "shared" / "base.toml", "preview = true\n")
    os.symlink("shared/base.toml", tree / "link.toml")
    assert settings_of(write(tree / "torchlint.toml", "extend = 'link.toml'\n")).preview


# -- required-version -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specifiers", "versions"),
    [
        ("0.2.0", "0.2.0 0.2 0.2.0rc1"),
        ("==0.2", "0.2.0"),
        ("==0.2.*", "0.2.0 0.2.9"),
        ("!=0.2.*", "0.1.0 0.3.0"),
        ("!=0.2.1", "0.2.0 0.3.0"),
        (">=0.2", "0.2.0 0.10.0 1.0"),
        (">0.2, <1", "0.2.1 0.9"),
        ("<=0.2", "0.1.9 0.2.0"),
        ("~=0.2", "0.2.0 0.9.1"),
        ("~=0.2.1", "0.2.1 0.2.7"),
    ],
)
def test_versions(specifiers: str, versions: str) -> None:
    every = {*versions.split(), "0.1.8", "0.2.99", "2.0.0"}
    expected = {
        "0.2.99": {"==0.2.*", ">=0.2", ">0.2, <1", "!=0.2.1", "~=0.2", "~=0.2.1"},
        "0.1.8": {"!=0.2.*", "<=0.2", "!=0.2.1"},
        "2.0.0": {"!=0.2.*", ">=0.2", "!=0.2.1"},
    }
    for version in every:
        wanted = version in versions.split() or specifiers in expected.get(version, ())
        assert satisfies(version, specifiers) is wanted, version


@pytest.mark.parametrize("text", ["", "latest", ">=", "0.2.x", "~=1", "~=1.2.*", ">1.*", "0.2 0.3", ">=0.2,"])
def test_no_versions(text: str) -> None:
    with pytest.raises(NoRequirement):
        satisfies("0.2.0", text)


def test_a_file_for_another_release_says_so_before_its_keys(tree: Path) -> None:
    path = write(tree / "torchlint.toml", "key-of-tomorrow = 1\nrequired-version = '>=99'\n")
    assert error(path).startswith("2: required-version: needs torchlint >=99, and this is 0.")
    write(path, "required-version = '>=99,'\n")
    assert error(path).startswith("1: required-version: must be a version or conditions as `>=0.2,<0.4`")
    write(path, "required-version = '>=0.1'\npreview = true\n")
    assert settings_of(path).preview


# -- severity and fixes ---------------------------------------------------------------------------------


def test_severity_of_what_means_fewer_rules_goes_first(tree: Path) -> None:
    text = "[severity]\nbad-call = 'hint'\nXX = 'warning'\nall = 'information'\n"
    selection = settings_of(write(tree / "torchlint.toml", text)).selection(tree / "a.py")
    assert [selection.severities[name] for name in ("bad-call", "crash", "syntax-error")] == [
        Severity.HINT,
        Severity.WARNING,
        Severity.INFORMATION,
    ]
    (finding,) = lint(SourceFile("a.py", b"bad()\n"), selection)
    assert finding.severity is Severity.HINT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("severity = 'error'", "1: severity: must be a table, not a string"),
        ("severity = { XX001 = 'fatal' }", "1: severity.XX001: `fatal` is not one of error, warning"),
        ("[severity]\nbad-cal = 'hint'", "2: severity.bad-cal: unknown rule or category `bad-cal`; did you mean"),
        ("output-format = 'jsn'", "1: output-format: `jsn` is not one of text, concise"),
        ("fixable = ['bad-cal']", "1: fixable: unknown rule or category"),
    ],
)
def test_wrong_values(tree: Path, text: str, message: str) -> None:
    assert error(write(tree / "torchlint.toml", text)).startswith(message)


def test_a_rule_is_named_once_however_it_is_spelled(tree: Path) -> None:
    """There are millions of spellings of a name in small and capital letters, and each is looked up."""
    text = "select = ['XX001', 'xx001', ' xX001']\n[severity]\nBAD-CALL = 'hint'\nbad-call = 'error'\n"
    settings = settings_of(write(tree / "torchlint.toml", text))
    assert (settings.select, settings.severity) == ((" xX001",), (("bad-call", "error"),))


# -- the command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("select=['XX001']", "select", ("XX001",)),
        ("preview = true", "preview", True),
        ("output-format=json", "output_format", "json"),
        ("rules.bad-call.limit=5", "rules", {"bad-call": {"limit": 5}}),
        ("severity.XX001='hint'", "severity", (("XX001", "hint"),)),
        ("required-version='>=0.1'", "select", None),
    ],
)
def test_inline(tree: Path, text: str, field: str, value: object) -> None:
    settings = Configurations(Overrides(layers=(inline(text),))).of_folder(tree)
    assert getattr(settings, field) == value


def test_inline_goes_before_files_and_behind_options(tree: Path) -> None:
    write(tree / "torchlint.toml", "select = ['XX002']\npreview = true\n")
    overrides = Overrides(layers=(inline("select=['XX001']"), inline("preview=false")))
    settings = Configurations(overrides).of_folder(tree)
    assert (settings.select, settings.preview) == (("XX001",), False)
    assert settings.origins["select"] == "--config"
    both = Configurations(Overrides(select=("pedantic",), layers=overrides.layers, said={"select": "--select"}))
    assert both.of_folder(tree).select == ("pedantic",)
    assert both.of_folder(tree).origins["select"] == "--select"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selct=[]", "--config selct=[]: selct: unknown key; did you mean `select`?"),
        ("select=XX001", "--config select=XX001: select: must be a list of strings, not a string"),
        ("rules.bad-call.limit=x", "rules.bad-call.limit: must be an integer, not a string"),
        ("extend='x.toml'", "extend: only a file extends another: name that by --config FILE"),
        ("=1", "--config =1: invalid TOML: "),
        (".".join("a" * 200) + "=1", "a key has more than 100 parts"),
        ("exclude=['a/'", "--config exclude=['a/': invalid TOML: "),
        ("select=" + "[" * 2_000, "invalid TOML"),
    ],
)
def test_wrong_inline(tree: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        inline(text)
    assert message in str(caught.value)


def test_the_user_may_name_any_path(tree: Path) -> None:
    assert inline("baseline='../known.json'").values["baseline"] == tree / "../known.json"
