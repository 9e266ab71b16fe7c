"""`%load_ext torchlint`: a cell is linted with those that ran before it, in a shell of this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.notebooks import notebook

pytest.importorskip("IPython")
SETUP = "import torch\nnet = torch.nn.Linear(1, 2)\ncriterion = torch.nn.CrossEntropyLoss()"
WRONG = "loss = criterion(net(x).softmax(1), y)\n"
"""Wrong only if `criterion` is what an earlier cell has made of it."""
RIGHT = "loss = criterion(net(x), y)\n"

Cell = Callable[..., str]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # of another environment: IPython would speak of it
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell(config=config)
    monkeypatch.setitem(sys.modules, "torch", MagicMock())  # which cells import
    yield shell
    shell.reset(new_session=False)


@pytest.fixture
def cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> Cell:
    """Runs a cell and gives what it prints; `name` is the cell of a notebook that it is."""

    def run(text: str, name: str | None = None) -> str:
        shell.run_cell(text, store_history=True, cell_id=name)
        printed = capsys.readouterr()
        return printed.out + printed.err

    assert run("%load_ext torchlint") == ""
    return run


def found(printed: str) -> list[str]:
    """The places and codes of findings."""
    return [line.partition(": ")[0] for line in printed.splitlines() if line.startswith(("session.", "train."))]


def test_a_cell_is_linted_with_those_before_it_and_not_run(cell: Cell, shell: Any) -> None:
    cell(SETUP)
    printed = cell(f"%%torchlint\n{WRONG}never = 1\n")
    assert found(printed) == ["session.ipynb:cell 3:2:8"]
    assert "TL501 softmax-before-cross-entropy" in printed
    assert printed.endswith("\n1 finding.\n")
    assert "never" not in shell.user_ns


def test_findings_of_other_cells_are_theirs(cell: Cell) -> None:
    cell(SETUP)
    cell(WRONG)
    assert cell("%%torchlint\nx = 1\n") == "No findings.\n"
    assert found(cell("%torchlint")) == ["session.ipynb:cell 3:1:8"]


def test_a_finding_between_two_cells_is_shown_by_both(cell: Cell) -> None:
    """A function of another cell goes backward: the finding stands there, its step in this cell."""
    cell("def back(loss):\n    loss.backward()\n")
    assert cell("%%torchlint\nx = 1\n") == "No findings.\n"
    printed = cell("%%torchlint\nfor x in loader:\n    back(net(x))\n    optimizer.step()\n")
    assert found(printed) == ["session.ipynb:cell 2:2:5"]
    assert "| cell 4" in printed


def test_what_is_only_linted_did_not_happen(cell: Cell) -> None:
    cell(f"%%torchlint\n{SETUP}")
    assert cell(f"%%torchlint\n{WRONG}") == "No findings.\n"
    assert cell("%torchlint") == "No findings.\n"


def test_a_cell_that_ran_again_counts_in_its_last_form(cell: Cell) -> None:
    cell(SETUP, "setup")
    cell(WRONG, "loop")
    cell(SETUP, "setup")
    assert found(cell("%torchlint", "lint")) == ["session.ipynb:cell 3:1:8"]
    cell(RIGHT, "loop")
    assert cell("%torchlint", "lint") == "No findings.\n"
    assert found(cell(f"%%torchlint\n{WRONG}", "loop")) == ["session.ipynb:cell 8:2:8"]


def test_a_cell_runs_where_nothing_is_found(cell: Cell, shell: Any) -> None:
    cell(SETUP)
    assert cell("%%torchlint --run\nprint('hello')\nhere = 1\n") == "No findings.\nhello\n"
    assert shell.user_ns["here"] == 1
    cell(f"%%torchlint --run\nthere = 1\n{WRONG}")
    assert "there" not in shell.user_ns


def test_rules_are_chosen_and_configured(cell: Cell, tmp_path: Path) -> None:
    cell(SETUP)
    assert cell(f"%%torchlint --ignore TL2,softmax-before-cross-entropy\n{WRONG}") == "No findings.\n"
    assert cell(f"%%torchlint --select performance --preview\n{WRONG}") == "No findings.\n"
    (tmp_path / "torchlint.toml").write_text("ignore = ['TL501']\n", "utf-8")
    assert cell(f"%%torchlint\n{WRONG}") == "No findings.\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%torchlint nowhere.py", "path does not exist: nowhere.py"),
        ("%torchlint --select nonsense", "unknown rule or category `nonsense`"),
        ("%torchlint --nonsense", "unrecognized arguments: --nonsense"),
        ("%torchlint --run", "--run is for a cell"),
        ("%%torchlint train.py\nx = 1", "%%torchlint lints its cell: leave out 'train.py'"),
    ],
)
def test_errors_are_said_in_a_line(cell: Cell, line: str, said: str) -> None:
    printed = cell(line)
    assert printed.startswith("UsageError: ")
    assert said in printed
    assert "Traceback" not in printed


def test_a_broken_configuration_is_named(cell: Cell, tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text("ignore = [", "utf-8")
    assert f"UsageError: {tmp_path / 'torchlint.toml'}:1: invalid TOML" in cell("%%torchlint\nx = 1\n")


def test_a_path_is_linted(cell: Cell, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{SETUP}\n{WRONG}", "utf-8")
    assert found(cell("%torchlint train.py")) == ["train.py:4:8"]


@pytest.mark.parametrize("frontend", ["vscode", "jupyter"])
def test_the_notebook_is_linted_as_it_was_saved(
    cell: Cell, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frontend: str
) -> None:
    file = tmp_path / "train.ipynb"
    file.write_text(notebook(SETUP, WRONG, "%torchlint"), "utf-8")
    if frontend == "vscode":
        shell.user_ns["__vsc_ipynb_file__"] = str(file)
    else:
        monkeypatch.setenv("JPY_SESSION_NAME", str(file))
    printed = cell("%torchlint")
    assert found(printed) == ["train.ipynb:cell 2:1:8"]
    assert "save it" not in printed
    assert cell("%torchlint --ignore TL5").startswith("train.ipynb has changed since it was saved: save it first.")
    file.unlink()
    assert cell("%torchlint") == "No findings.\n"


def test_a_cell_that_is_no_python(cell: Cell) -> None:
    cell("for for")
    assert found(cell("%%torchlint\nx = = 1\n")) == ["session.ipynb:cell 3:2:5"]
    assert cell("%%torchlint\nx = 1\n") == "No findings.\n"


def test_it_is_described_and_goes(cell: Cell) -> None:
    assert "--select RULES" in cell("print(get_ipython().find_line_magic('torchlint').__doc__)")
    cell("%reload_ext torchlint")
    assert cell("%%torchlint\nx = 1\n") == "No findings.\n"
    cell("%unload_ext torchlint")
    assert "not found" in cell("%torchlint")
