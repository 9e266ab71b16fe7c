"""Python's own parser, as it is asked here."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.files.python import UNREADABLE, string_value


@pytest.mark.parametrize(
    "literal",
    [
        "''",
        '"a"',
        "'it\\'s'",
        '"it\'s"',
        r"r'\d'",
        "b'x'",
        "rb'x'",
        '"""a "quoted" word"""',
        "'''x'''",
        r"'\u0041'",
        "'zwölf'",
    ],
)
def test_the_value_of_a_string(literal: str) -> None:
    assert string_value(literal) == ast.literal_eval(literal)


@pytest.mark.parametrize("literal", [r"'\x'", r"'\N{no such letter}'"])
def test_a_string_without_a_value(literal: str) -> None:
    with pytest.raises(UNREADABLE):
        string_value(literal)


STEPS = """\
import torch

def train(model, optimizer, loader):
    for x in loader:
        name = "\\d" "\\d"
        loss = model(x)[name]["\\d"]
        x[0] = loss.exp_()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_nothing_is_said_of_what_python_merely_dislikes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(STEPS, newline="\n")
    command = (
        sys.executable,
        "-W",
        "always",
        "-m",
        "torchlint",
        "--isolated",
        "--no-cache",
        "--output-format=concise",
        ".",
    )
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "missing-zero-grad" in run.stdout
    assert "Warning" not in run.stderr
