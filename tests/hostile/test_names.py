"""Names of files are never options, nor are variables looked up in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from torchlint import cli as command_line

Torchlint = Callable[..., Result]


@pytest.mark.parametrize("name", ["--exclude=*.py", "--exit-zero", "-q", "--output-file=bad.py", "--fix-only"])
def test_a_file_that_is_called_like_an_option(checkout: Path, name: str) -> None:
    """As a shell, or a hook that is handed changed files, writes them: `torchlint *`."""
    (checkout / name).write_text("# not an option")
    names = sorted(path.name for path in checkout.iterdir() if path.is_file())
    result = CliRunner().invoke(command_line.cli, names)
    assert result.exit_code == 2 and f"`{name}` is both an option and a file: write `./{name}`" in result.stderr
    assert (checkout / "bad.py").read_text() == "bad()\n"
    result = CliRunner().invoke(command_line.cli, ["--no-cache", "--statistics", "--", *names])
    assert result.exit_code == 1 and "1  XX001" in result.stdout


def test_standard_input_is_not_a_file(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "-").touch()
    assert "1 finding" in torchlint("-", stdin="bad()\n").stdout


def test_no_variable_is_looked_up_in_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which click does on Windows: a file called `$TOKEN.py` would have an error say what the token is."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(command_line.cli, "main", lambda **options: given.update(options) or 0)
    with pytest.raises(SystemExit):
        command_line.main()
    assert given["windows_expand_args"] is False
