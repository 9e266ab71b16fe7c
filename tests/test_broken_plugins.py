"""A plugin that cannot be used is named, with exit code 2: nothing is linted without its rules, and nothing crashes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from torchlint import Category, Rule, Selection, SourceFile, lint
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.engine.plugins import Plugin

RULE = '''
from torchlint import Category, Rule

class Seed(Rule):
    """A seed."""
    code, category = "SEED001", Category.SUSPICIOUS
'''
BROKEN = {
    "import torchlint_no_such_module": "ModuleNotFoundError: No module named 'torchlint_no_such_module'",
    "from torchlint import triage": "since torchlint 0.1 this is `torchlint.index` (https://",
    "import torchlint.hints": "since torchlint 0.1 this is `torchlint.pytorch.naming`",
    "from torchlint.model import upkeep": "since torchlint 0.1 this is asked by the rule that needs it (https://",
    "from torchlint.model.events import Flow": "since torchlint 0.1 this is `torchlint.model.dataflow.Flow` (https://",
    "1 / 0": "ZeroDivisionError: division by zero",
    "import sys\nsys.exit(0)": "SystemExit: 0",
    "x = (": "SyntaxError: '(' was never closed",
    "raise Exception": "Exception",
    RULE.replace("SEED001", "no code"): "rule seed has no valid code: 'no code'",
    RULE.replace(", category = ", ", kind = "): "rule seed has no category",
    RULE.replace("SEED001", "TL001"): "rule seed (TL001) clashes with another rule",
}


def linted(folder: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> tuple[int, str]:
    """Exit code and errors of a run with one plugin, whose module or package is in the folder."""
    monkeypatch.setattr(registry, "plugins", lambda: (Plugin("seeds", value),))
    for name in ("rules", "_declared"):
        monkeypatch.setattr(registry, name, getattr(registry, name).__wrapped__)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchlint_seeds"]:
        monkeypatch.delitem(sys.modules, name)
    result = CliRunner().invoke(cli, ["--no-cache", "--isolated", "."])
    return result.exit_code, result.stderr


@pytest.mark.parametrize("text", BROKEN, ids=BROKEN.values())
@pytest.mark.parametrize("file", ["torchlint_seeds.py", "torchlint_seeds/seed.py"])
def test_what_is_wrong_with_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    code, errors = linted(tmp_path, monkeypatch, "torchlint_seeds")
    assert code == 2
    assert "error: plugin `seeds` (torchlint_seeds) cannot be used: " in errors and BROKEN[text] in errors


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("torchlint_seeds:Seed", "ModuleNotFoundError: No module named 'torchlint_seeds'"),
        ("json:no_such_name", "AttributeError: module 'json' has no attribute 'no_such_name'"),
        ("json:dumps", "it is neither a rule nor a module: <function dumps at "),
        ("no such: value", "ModuleNotFoundError: No module named 'no such'"),
    ],
)
def test_what_a_plugin_names_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    code, errors = linted(tmp_path, monkeypatch, value)
    assert code == 2
    assert f"plugin `seeds` ({value}) cannot be used: {reason}" in errors


OLD_RULE = '''
class Seed(Rule):
    """A seed."""
    code, category, triggers = "SEED001", Category.SUSPICIOUS, ((b"backward",),)

    def ask(self):
        for trace in self.model.program.traces:
            yield from (event.node for event in trace.events)
'''


def test_a_rule_that_asks_as_it_did_in_0_1() -> None:
    names: dict[str, Any] = {"Rule": Rule, "Category": Category}
    exec(OLD_RULE, names)
    (finding,) = lint(SourceFile("a.py", b"loss.backward()\n"), Selection((names["Seed"],)))
    assert finding.name == "internal-error"
    assert "since torchlint 0.1 this is `site`; `self.written(site)` gives LibCST's node" in finding.message


WRONG = {
    "self.report(None, 'nowhere')": "a finding is at a node of this file's tree, or at a site, not at None",
    "self.report(node, 'here', related=[(None, 'nowhere')])": "not at None",
    "self.report(node.deep_clone(), 'a copy')": "not at Call(",
    "self.report(self.model.tree.module, 'of the other parser')": "not at <ast.Module object",
}


@pytest.mark.parametrize("code", WRONG)
def test_a_rule_that_reports_where_nothing_is(code: str, bad_call: type[Rule]) -> None:
    """It is named, and what the others have found is not lost."""
    names: dict[str, Any] = {"Rule": Rule, "Category": Category}
    head = OLD_RULE[: OLD_RULE.index("def ask")]
    exec(f"{head}def visit_Call(self, node):\n        {code}\n", names)
    found = lint(SourceFile("a.py", b"loss.backward()\nbad()\n"), Selection((bad_call, names["Seed"])))
    assert [finding.name for finding in found] == ["internal-error", "bad-call"]
    assert found[0].message.startswith("rule seed crashed: LookupError: ") and WRONG[code] in found[0].message


def test_a_rule_that_cannot_be_made(bad_call: type[Rule]) -> None:
    names: dict[str, Any] = {"Rule": Rule, "Category": Category}
    head = OLD_RULE[: OLD_RULE.index("def ask")]
    exec(f"{head}def __init__(self, model):\n        super().__init__(model)\n", names)
    found = lint(SourceFile("a.py", b"loss.backward()\nbad()\n"), Selection((bad_call, names["Seed"])))
    assert [finding.name for finding in found] == ["internal-error", "bad-call"]
    assert found[0].message.startswith("rule seed crashed: TypeError: ")
