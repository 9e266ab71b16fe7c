"""Findings made elsewhere: matched with the sources here, or refused with a reason."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.verify.findings_file import NOTEBOOK, STALE, FindingsError, read

SOURCE = """\
import torch


def train(model, loader, criterion):
    \u00fc, optimizer = "\U0001f600", torch.optim.Adam(model.parameters())
    for x, y in loader:
        loss = criterion(model(x), y); "\U0001f600"; loss.backward()
        optimizer.step()
"""


@pytest.fixture
def linted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of findings, beside the source that they are about."""
    folder = tmp_path / "here" / "pkg"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(SOURCE, "utf-8")
    command = [sys.executable, "-m", "torchlint", "--output-format", "json", "pkg/train.py"]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True)
    findings = tmp_path / "findings.json"
    findings.write_text(done.stdout)
    monkeypatch.chdir(folder.parent)
    return findings


def test_findings_are_read_as_they_were_written(linted: Path) -> None:
    (subject,) = read(linted)
    assert subject.problem == ""
    assert subject.finding.path == str(Path("pkg", "train.py"))
    assert subject.finding.name == "missing-zero-grad"
    assert subject.finding.span.start.column == SOURCE.splitlines()[6].index("loss.backward")
    assert [item.span.start.line for item in subject.finding.related] == [8]


def test_findings_of_another_machine_are_found_by_the_end_of_their_path(linted: Path) -> None:
    data = json.loads(linted.read_text())
    data[0]["uri"] = "file:///home/somebody/project/pkg/train.py"
    linted.write_text(json.dumps(data))
    assert [subject.problem for subject in read(linted)] == [""]


def test_a_line_that_has_moved_or_changed_is_said(linted: Path) -> None:
    Path("pkg/train.py").write_text("# a new first line\n" + SOURCE, "utf-8")
    assert [subject.problem for subject in read(linted)] == [STALE]


def test_a_file_of_another_tool_needs_no_related_lines(linted: Path) -> None:
    data = json.loads(linted.read_text())
    del data[0]["diagnostics"][0]["relatedInformation"]
    linted.write_text(json.dumps(data))
    assert [subject.finding.related for subject in read(linted)] == [()]


def test_the_sample_of_the_guide_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "verify.md").read_text("utf-8")
    (sample,) = re.findall(r"^```json\n(.*?)^```$", guide, re.M | re.S)
    example = Path(__file__).parents[2] / "docs" / "examples" / "train.py"
    (tmp_path / "train.py").write_bytes(example.read_bytes())
    (tmp_path / "findings.json").write_text(sample)
    monkeypatch.chdir(tmp_path)
    (subject,) = read(tmp_path / "findings.json")
    assert (subject.problem, subject.finding.path) == ("", "train.py")
    assert (
        subject.source.line(subject.finding.span.start.line)[subject.finding.span.start.column :] == "loss.backward()"
    )


def test_a_source_that_is_gone_is_said(linted: Path) -> None:
    Path("pkg/train.py").unlink()
    (subject,) = read(linted)
    assert subject.problem.endswith("train.py does not exist here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[1, 2]", "is not what `torchlint --output-format json` writes"),
        ('{"findings": 1}', "is not what"),
        ('[{"uri": "https://example.org/x.py", "diagnostics": []}]', "not the address of a file"),
        ('[{"uri": "file:///x.py", "diagnostics": [{}]}]', "'data' is missing"),
    ],
)
def test_what_holds_no_findings_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(FindingsError, match=message) as error:
        read(path)
    assert "odd.json" in str(error.value)


@pytest.mark.parametrize(("fragment", "shown"), [("#cell3", "a b.ipynb#cell3"), ("", "a b.ipynb")])
def test_a_notebook_cannot_be_verified(tmp_path: Path, fragment: str, shown: str) -> None:
    place = {"start": {"line": 2, "character": 4}, "end": {"line": 2, "character": 9}}
    data = {"name": "missing-zero-grad", "confidence": "high", "help": "", "fingerprint": "1"}
    common = {"range": place, "severity": 1, "code": "TL101", "message": "m", "relatedInformation": [], "data": data}
    path = tmp_path / "findings.json"
    path.write_text(json.dumps([{"uri": f"file:///home/a%20b.ipynb{fragment}", "diagnostics": [common]}]))
    (subject,) = read(path)
    assert subject.problem == NOTEBOOK
    assert subject.finding.path == f"/home/{shown}"
    assert subject.finding.span.start.line == 3
