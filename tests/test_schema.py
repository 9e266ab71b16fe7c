"""The JSON Schema of the configuration says what the reader of files says; the committed one is up to date.

`python tests/test_schema.py` writes it anew, and the table of keys in docs/settings.md.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped,unused-ignore]

from torchlint import Rule
from torchlint.engine import registry
from torchlint.engine.rule_table import builtin_rules
from torchlint.project.config import ConfigError, read
from torchlint.project.keys import KEYS
from torchlint.project.schema import schema
from torchlint.project.settings import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parent.parent / "docs" / "torchlint.schema.json"
GUIDE = FILE.with_name("settings.md")


def written(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def test_the_committed_schema_is_up_to_date() -> None:
    assert {*registry.rules()} == {*builtin_rules()}, "uninstall the plugins"
    assert FILE.read_text("utf-8") == written(schema()), "run `python tests/test_schema.py`"


def documented(page: str) -> str:
    """docs/settings.md with the table of keys as they are now."""
    rows = [f"| `{name}` | {_type(key.kind.schema())} | {key.meaning} |" for name, key in KEYS.items()]
    table = "\n".join(["| Key | Value | Meaning |", "| --- | --- | --- |", *rows])
    return re.sub(r"(?<=<!-- keys -->\n).*?(?=<!-- /keys -->)", lambda _: f"{table}\n", page, flags=re.DOTALL)


def _type(found: dict[str, Any]) -> str:
    """The type of a value, in a word or two."""
    names = {"array": "list", "object": "table", "boolean": "true or false"}
    return "one of the formats" if "enum" in found else names.get(found["type"], found["type"])


def test_every_key_is_in_the_guide() -> None:
    assert GUIDE.read_text("utf-8") == documented(GUIDE.read_text("utf-8")), "run `python tests/test_schema.py`"


def test_it_is_a_schema_that_knows_every_key() -> None:
    Draft7Validator.check_schema(schema())
    assert list(schema()["properties"]) == list(KEYS)
    fields = {name.replace("-", "_") for name, key in KEYS.items() if not key.of_this_file}
    assert fields <= Settings.__dataclass_fields__.keys()
    assert all(key.meaning.endswith(".") for key in KEYS.values())


GOOD = (
    "",
    "select = ['XX001', 'xx', 'XX00', 'bad-call', 'correctness', 'all', 'TL0']",
    "[severity]\nall = 'hint'\nXX001 = 'error'",
    "[rules.bad-call]\nlimit = 5\nstrict = true\nnames = ['a']\ntitle = ''",
    "per-file-ignores = { 'a/*.py' = ['XX001'] }",
    "required-version = '>=0.1, <99'",
    "baseline = 'sub/known.json'\ncache-dir = '.cache'\noutput-format = 'sarif'\nsrc = ['a', 'packages/*/src']",
    "preview = true\nforce-exclude = false\nfollow = true\nexclude = ['a/']",
)
BAD = (
    "selct = []",
    "select = 'XX001'",
    "select = ['no-such-rule']",
    "preview = 1",
    "exclude = [1]",
    "src = ['/etc']",
    "src = ['a/../../b']",
    "src = ['']",
    "severity = { XX001 = 'fatal' }",
    "severity = { nobody = 'hint' }",
    "per-file-ignores = []",
    "per-file-ignores = { 'a' = ['nobody'] }",
    "rules.nobody = {}",
    "rules.bad-call.limt = 1",
    "rules.bad-call.limit = true",
    "rules.bad-call = 1",
    "output-format = 'xml'",
    "baseline = ''",
    "cache-dir = '/tmp/x'",
    "extend = 'C:/x.toml'",
    "required-version = 'latest'",
)


@pytest.mark.parametrize("text", [*GOOD, *BAD])
def test_it_says_what_the_reader_says(bad_call: type[Rule], tmp_path: Path, text: str) -> None:
    (tmp_path / "torchlint.toml").write_text(text)
    try:
        read(tmp_path / "torchlint.toml")
        accepted = True
    except ConfigError:
        accepted = False
    assert accepted is (text in GOOD)
    assert Draft7Validator(schema()).is_valid(tomllib.loads(text)) is accepted


if __name__ == "__main__":
    FILE.write_text(written(schema()), "utf-8")
    GUIDE.write_text(documented(GUIDE.read_text("utf-8")), "utf-8")
