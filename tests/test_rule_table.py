"""The table of built-in rules says what the rules say themselves, or is not used."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from torchlint import Category, Rule
from torchlint.engine import rule_table
from torchlint.engine.plugins import CORE, Plugin, rules_in
from torchlint.engine.rule_table import ListedRule, builtin_rules, listed, loaded, read, written
from torchlint.rule import OptionValue

ROOT = Path(__file__).parent.parent
STATE = {"a.py": [10, 20]}


class Example(Rule):
    """A line of the summary.

    More.
    """

    code = "XX900"
    category = Category.SUSPICIOUS
    is_maintenance = True
    aliases = ("YY1", "YY2")
    triggers = ((b"one", "zwei ä".encode()), (b"\xff",))
    options: ClassVar[dict[str, OptionValue]] = {"limit": 3, "strict": False, "name": "x", "names": ("a", "b")}


def said(rule: ListedRule) -> object:
    return rule.module, rule.class_name, rule.meta(), rule.triggers, rule.options


def test_it_says_what_the_rules_say() -> None:
    rules = rules_in(CORE.load())
    assert [said(rule) for rule in builtin_rules()] == [said(listed(rule)) for rule in rules]
    assert [rule.load() for rule in builtin_rules()] == rules
    for rule, entry in zip(rules, builtin_rules(), strict=True):
        assert (entry.rule_name(), entry.code, entry.category) == (rule.rule_name(), rule.code, rule.category)
        assert (entry.meta(), entry.preview, entry.options) == (rule.meta(), rule.preview, rule.options)


def test_what_is_written_is_read() -> None:
    (rule,) = read(written([listed(Example)], STATE), STATE) or ()
    assert said(rule) == said(listed(Example))
    assert rule.triggers == Example.triggers and rule.options == Example.options
    assert rule.meta() == Example.meta() and rule.load() is loaded(Example) is Example


TABLE = json.loads(written([listed(Example)], STATE))
WRONG = {
    "missing": b"",
    "cut short": written([listed(Example)], STATE)[:-20],
    "no UTF-8": b"\xff\xfe",
    "another value": b"[1, 2]",
    "deep": b"[" * 100_000,
    "of no state": json.dumps({"rules": TABLE["rules"]}).encode(),
    "of another state": written([listed(Example)], {"a.py": [10, 21]}),
    "of a version": written([listed(Example)], "0.2.0"),
    "of rules in another form": json.dumps({"state": STATE, "rules": [["a", "b"]]}).encode(),
    "of a category that is gone": written([listed(Example)], STATE).replace(b"suspicious", b"wrong"),
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_another_table_is_not_used(content: bytes) -> None:
    assert read(content, STATE) is None


def test_a_rule_is_the_same_in_another_process() -> None:
    rule = builtin_rules()[3]
    assert pickle.loads(pickle.dumps(rule)) is rule


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of rules outside the package, as that of a source tree; none of it was imported before."""
    folder = tmp_path / "rules"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(rule_table, "CORE", Plugin("core", "rules_of_a_tree"))
    monkeypatch.setattr(rule_table, "_STARTED", 2**62)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder.rename(tmp_path / "rules_of_a_tree")
    yield tmp_path / "rules_of_a_tree"
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rules_of_a_tree"]:
        del sys.modules[name]


def names(imported: bool) -> list[str]:
    """The rules as a new process has them; whether it imports them must be as expected."""
    _forget()
    found = [rule.rule_name() for rule in builtin_rules.__wrapped__()]
    assert imported == any(name.startswith("rules_of_a_tree.") for name in sys.modules)
    return found


RULE = '''
from torchlint import Category, Rule

class {0}(Rule):
    """A rule."""

    code, category = "{1}", Category.SUSPICIOUS
'''


def test_a_source_tree_keeps_a_table_until_a_rule_changes(tree: Path) -> None:
    one, two = tree / "one.py", tree / "two.py"
    one.write_text(RULE.format("One", "XX901"))
    assert names(imported=True) == names(imported=False) == ["one"]
    two.write_text(RULE.format("Two", "XX902"))
    assert names(imported=True) == names(imported=False) == ["one", "two"]
    one.write_text(RULE.format("Uno", "XX901"))  # as long as before
    status = one.stat()
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns + 10**10))
    assert names(imported=True) == names(imported=False) == ["uno", "two"]
    two.unlink()
    assert names(imported=True) == names(imported=False) == ["uno"]


def test_a_table_is_kept_only_of_what_was_surely_imported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that was changed while the process ran may not be what it has imported."""
    (tree / "one.py").write_text(RULE.format("One", "XX901"))
    monkeypatch.setattr(rule_table, "_STARTED", (tree / "one.py").stat().st_mtime_ns + 10**9)
    assert names(imported=True) == names(imported=True) == ["one"]


def test_a_tree_that_cannot_be_written_has_no_table(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "one.py").write_text(RULE.format("One", "XX901"))
    (tree / "__pycache__").rmdir()
    (tree / "__pycache__").write_text("a file")
    assert names(imported=True) == names(imported=True) == ["one"]


def test_python_may_be_told_to_write_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "one.py").write_text(RULE.format("One", "XX901"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert names(imported=True) == names(imported=True) == ["one"]


SOURCES = """
import sys
from torchlint.engine import rule_table
rule_table._imported()
loaded = (module for module in sys.modules.values() if type(module) is type(sys))
print(*(getattr(module, "__file__", None) or "" for module in loaded), sep="\\n")
"""


@pytest.mark.slow
def test_a_table_depends_on_all_that_rules_may_have_their_words_from(run: Callable[..., str]) -> None:
    """Else a table of a source tree might be used when it is wrong."""
    files = {Path(line) for line in run(sys.executable, "-c", SOURCES).splitlines() if line}
    ours = {file for file in files if file.is_relative_to(ROOT / "torchlint") or file.is_relative_to(ROOT / "rules")}
    known = set(map(Path, rule_table._stamps(str(ROOT / "rules"))))
    assert len(ours & known) > 60
    others = {file.relative_to(ROOT / "torchlint").as_posix() for file in ours - known}
    without_words = (
        "engine/",
        "files/",
        "index/",
        "syntax/",
        "model/__init__.py",
        "model/queries/__init__.py",
        "model/relations/__init__.py",
    )
    assert [name for name in sorted(others) if not name.startswith(without_words)] == []
