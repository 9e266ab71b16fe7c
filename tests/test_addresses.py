"""Each address of the project is written once, in torchlint/addresses.py; documents that need it literally follow.

`python tests/test_addresses.py` moves them from the addresses in pyproject.toml to those of that module.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchlint import Category, Rule, addresses
from torchlint.engine import plugins, registry
from torchlint.engine.plugins import CORE, Plugin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
WANTED = {
    "Documentation": addresses.SITE,
    "Repository": addresses.REPOSITORY,
    "Package": addresses.PACKAGE,
}
"""Labels in `[project.urls]`, and their addresses."""


def in_use() -> dict[str, str]:
    """The addresses by which the documents go."""
    urls: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    return urls


def raw(repository: str) -> str:
    """Where the files of a repository are served as they are; pictures of the README are."""
    return f"{repository.replace('https://github.com/', 'https://raw.githubusercontent.com/')}/main"


def moved(text: str, old: dict[str, str]) -> str:
    """A text with the addresses that are wanted."""
    pairs = [(old[label], wanted) for label, wanted in WANTED.items()]
    pairs += [(raw(before), raw(wanted)) for before, wanted in pairs]
    for before, wanted in pairs:
        text = re.sub(re.escape(before) + r"(?![\w-])", wanted, text)
    return text


def documents() -> Iterator[Path]:
    """All text files that are tracked."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, names):
        path = ROOT / name.decode()
        if path.is_file() and path.suffix not in {".png", ".ico"}:
            yield path


def test_package_has_the_addresses_of_the_module() -> None:
    assert {label: in_use().get(label) for label in WANTED} == WANTED, "run `python tests/test_addresses.py`"


def test_code_takes_them_from_the_module() -> None:
    """A second copy would be forgotten when the project moves."""
    sources = [*(ROOT / "torchlint").rglob("*.py"), *(ROOT / "rules").glob("*.py"), *(ROOT / "tests").rglob("*.py")]
    copies = {
        str(path.relative_to(ROOT))
        for path in sources
        if any(wanted in path.read_text("utf-8", "replace") for wanted in WANTED.values())
    }
    assert copies == {str(Path("torchlint", "addresses.py"))}


def test_a_document_is_moved() -> None:
    text = f"{addresses.REPOSITORY}/issues {addresses.REPOSITORY}-other {raw(addresses.REPOSITORY)}/docs/a.svg"
    old = {**WANTED, "Repository": "https://github.com/new/home"}
    back = {label: (wanted, old[label]) for label, wanted in WANTED.items()}
    there = text.replace(addresses.REPOSITORY + "/", old["Repository"] + "/")
    there = there.replace(raw(addresses.REPOSITORY), raw(old["Repository"]))
    assert there != text and moved(there, {label: new for label, (_, new) in back.items()}) == text


def test_every_built_in_rule_has_a_page_of_its_own() -> None:
    own = [meta for meta in registry.metas() if re.fullmatch(r"TL\d{3}", meta.code)]
    assert len({registry.address(meta.name) for meta in own}) == len(own)
    assert all(registry.address(meta.name) == f"{addresses.SITE}/rules/{meta.name}/" for meta in own)
    assert registry.address("no-such-rule") == ""


@pytest.mark.parametrize(
    ("metadata", "address"),
    [
        ("Project-URL: Homepage, https://example.org/home\nProject-URL: documentation,https://example.org/docs\n",
         "https://example.org/docs"),
        ("Home-page: http://example.org\nProject-URL: Changelog, https://example.org/changes\n", "http://example.org"),
        ("Project-URL: Documentation, javascript:alert(1)\nProject-URL: Source, https://example.org/src\n",
         "https://example.org/src"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_plugin_is_documented_where_its_package_says(
    metadata: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n{metadata}")
    (info / "entry_points.txt").write_text("[torchlint.rules]\nmine = mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [plugin for plugin in plugins._declared() if plugin.name == "mine"]
    assert found.address == address


@pytest.mark.parametrize(
    ("own", "address"),
    [
        ("", "https://example.org/docs"),
        ("https://example.org/rules/mine", "https://example.org/rules/mine"),
        ("file:///etc/passwd", "https://example.org/docs"),
    ],
)
def test_a_rule_of_a_plugin_may_have_an_address_of_its_own(own: str, address: str) -> None:
    class Mine(Rule):
        """A rule. It is not of torchlint, whatever its code says."""

        code = "TL998"
        category = Category.SUSPICIOUS

    Mine.address = own
    plugin = Plugin("mine", "mine", "mine 1.0", "https://example.org/docs")
    assert registry._address(Mine, plugin) == address
    assert registry._address(Mine, CORE) == f"{addresses.SITE}/rules/mine/"


if __name__ == "__main__":
    old = in_use()
    for path in documents():
        text = path.read_bytes()
        try:
            new = moved(text.decode(), old).encode()
        except UnicodeDecodeError:
            continue
        if new != text:
            path.write_bytes(new)
            print(path.relative_to(ROOT))
