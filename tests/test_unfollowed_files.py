"""Rules that search files of the repository which the linted file does not import."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from torchlint.cli import cli

OPTIONS = Path(__file__).parent.parent / "fixtures" / "scheduler_before_optimizer" / "options.py"


@pytest.mark.parametrize(("name", "count"), [("__init__", 3), ("change", 2)])
def test_an_attribute_that_another_file_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "options.py").write_text(OPTIONS.read_text("utf-8"), "utf-8")
    other = f"class Other:\n    def {name}(self, step_size):\n        self.step_size = step_size\n"
    (tmp_path / "other.py").write_text(other, "utf-8")
    arguments = ("--no-cache", "--select", "scheduler-before-optimizer", "--output-format", "concise", "options.py")
    result = CliRunner().invoke(cli, arguments)
    assert "crashed" not in result.stdout
    assert len(result.stdout.splitlines()) == count
