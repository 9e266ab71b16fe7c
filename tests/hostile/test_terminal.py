"""Names and texts of a checkout send no commands to a terminal, nor to a service that reads the log."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.hostile.conftest import needs_fifos
from torchlint import SourceFile
from torchlint.finding import Confidence, Edit, Finding, Fix, Position, Related, Safety, Severity, Span
from torchlint.outputs import FORMATS, Style, render
from torchlint.outputs.escaping import printable
from torchlint.results import LintedFile, Outcome
from torchlint.server.languageserver import TorchlintServer

Torchlint = Callable[..., Result]

EVIL = "::stop-commands::x \x1b]0;t\x07\x9b2J\u202e\u2066\u200b\r::error::y\n ::error::z ##vso[task.complete] ##[error]"
PLACE = Span(Position(1, 0), Position(1, 5))

names_of_any_kind = pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be there")


def commands(text: str) -> list[str]:
    """Commands in a text that a terminal, GitHub, Azure or TeamCity would obey, except torchlint's own annotations."""
    text = re.sub(r"^##vso\[task\.logissue type=(?:error|warning);(?:(?!##)[^\]])*\]", "", text, flags=re.MULTILINE)
    lines = [line.strip() for line in re.split(r"[\r\n]", text)]
    github = [line for line in lines if line.startswith("::") and not re.match(r"::(error|notice) title=", line)]
    others = re.findall(r"##\w*\[.*|[^\t\r\n -~\w…\ufffd]", text)
    return [*github, *others]


def test_what_is_looked_for_is_found() -> None:
    assert len(commands(EVIL)) > 8


@pytest.mark.parametrize("form", [*FORMATS, "statistics"])
def test_no_format_says_them(form: str) -> None:
    fix = Fix(EVIL, (Edit(PLACE, EVIL),), Safety.SAFE)
    finding = Finding(
        *(EVIL, "bad-call", "XX001", EVIL, PLACE, Severity.ERROR, Confidence.HIGH),
        *((Related(PLACE, EVIL),), EVIL, "fingerprint", fix),
    )
    evil = EVIL.replace("\r", "").replace("\n", "")
    files = [LintedFile(SourceFile(path, f"bad()  # {evil}\n".encode()), (finding,)) for path in (EVIL, f"a/{EVIL}.py")]
    assert commands(render(form, Outcome(tuple(files), 2), Style())) == []


@names_of_any_kind
@pytest.mark.parametrize("form", FORMATS)
def test_no_name_of_a_file_is_one(checkout: Path, torchlint: Torchlint, form: str) -> None:
    name = EVIL.replace("\r", "")
    (checkout / f"{name}.py").write_text("bad()\n")
    (checkout / f"{name}broken.py").write_bytes(b"\xff")
    (checkout / name).mkdir()
    (checkout / name / "a.ipynb").write_text("{")
    result = torchlint("--output-format", form)
    assert result.exit_code == 1
    assert commands(result.stdout) == [] == commands(result.stderr)


FIXABLE = """\
import torch
def train(model, loader, criterion, optimizer):
    optimizer.zero_grad()  # {}
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
    ''' ##vso[task.complete] \x1b[2J
::error::x
    '''
"""


@pytest.fixture
def fixable(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with real rules, and a file that can be fixed."""
    monkeypatch.undo()
    monkeypatch.chdir(checkout)
    monkeypatch.delenv("CI", raising=False)
    (checkout / "bad.py").write_text(FIXABLE.format("none"))
    return checkout


def test_a_diff_in_a_log_says_none(fixable: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torchlint("--diff", "--no-cache").stdout
    assert "-        torch.cuda.empty_cache()\n" in exact and "\x1b[2J\n" in exact, "for other programs"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = torchlint("--diff", "--no-cache").stdout
    assert "-        torch.cuda.empty_cache()\n" in shown
    assert commands(shown) == []
    torchlint("--diff", "--no-cache", "--output-file", "patch")
    assert (fixable / "patch").read_text() == exact


@names_of_any_kind
def test_the_header_of_a_diff_stays_on_its_line(fixable: Path, torchlint: Torchlint) -> None:
    (fixable / "bad.py").rename(fixable / "x\n::error::y.py")
    assert torchlint("--diff", "--no-cache").stdout.startswith("--- x\\n::error::y.py\n+++ x\\n::error::y.py\n@@")


CONFIGURATIONS = {
    "key": f"{json.dumps(EVIL)} = 1",
    "rule": f"select = [{json.dumps(EVIL)}]",
    "option": f"[rules.{json.dumps(EVIL)}]",
    "pattern": f"[per-file-ignores]\n{json.dumps(EVIL)} = 1",
    "syntax": f"x = {EVIL}",
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_no_error_of_a_configuration_says_them(checkout: Path, torchlint: Torchlint, kind: str) -> None:
    (checkout / "torchlint.toml").write_text(CONFIGURATIONS[kind], "utf-8")
    result = torchlint()
    assert result.exit_code == 2 and "torchlint.toml:" in result.stderr
    assert commands(result.output) == []


@pytest.mark.slow
@names_of_any_kind
@needs_fifos
def test_no_error_or_warning_says_them(checkout: Path, torchlint: Torchlint) -> None:
    name = EVIL.replace("/", "")
    folder = checkout / name
    (folder / ".gitignore").mkdir(parents=True)
    (folder / ".gitignore").rmdir()
    (folder / ".gitignore").symlink_to("nothing")
    (folder / "a.py").write_text("bad()\n")
    (folder / "known.json").write_text("{")
    (folder / "empty").mkdir()
    for arguments in (
        (),
        (f"{name}/empty",),
        (f"{name}/none",),
        ("--since", "HEAD"),
        ("--since", EVIL),
        ("--baseline", f"{name}/known.json"),
        ("--baseline", f"{name}/none.json"),
        ("--baseline", f"{name}/new.json", "--update-baseline"),
        ("--config", f"{name}/none.toml"),
        ("--config", f"{name}/known.json"),
        ("--select", EVIL),
        ("--output-file", f"{name}/none/x"),
        (f"--{EVIL}",),
        ("--output-format", EVIL),
    ):
        result = torchlint(*arguments)
        assert result.stderr and commands(result.output) == [], arguments


def test_no_message_to_an_editor_says_them(monkeypatch: pytest.MonkeyPatch) -> None:
    server = TorchlintServer()
    said: list[str] = []
    monkeypatch.setattr(server, "window_show_message", lambda params: said.append(params.message))
    server.complain(EVIL)
    assert said == [f"torchlint: {printable(EVIL)}"] and commands(said[0]) == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("`layers[0](x)` is", r"`layers[0\](x)` is"),
        ("[click](https://example.org)", r"[click\](https://example.org)"),
        ("`opts['main']` is (not)", "`opts['main']` is (not)"),
        ("a[b[0]](c)", r"a[b[0]\](c)"),
    ],
)
def test_no_message_in_sarif_is_a_link(message: str, expected: str) -> None:
    finding = Finding("a.py", "bad-call", "XX001", message, PLACE, Severity.ERROR)
    log = json.loads(render("sarif", Outcome((LintedFile(SourceFile("a.py", b"bad()"), (finding,)),), 1), Style()))
    assert log["runs"][0]["results"][0]["message"]["text"] == expected
