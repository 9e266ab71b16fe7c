"""The command that runs a notebook: its code cells are one program, as the linter reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from torchlint.files.ipython import SUFFIX
from torchlint.files.source import SourceError, SourceFile
from torchlint.verify.launch import LaunchError

_RUNNER = Path(__file__).with_name("run_notebook.py")


def notebook_of(command: Sequence[str]) -> Path | None:
    """The notebook of `train.ipynb --epochs 1` or `python train.ipynb`; None for another command."""
    is_python = len(command) > 1 and Path(command[0]).stem.startswith("python")
    word = command[1] if is_python else command[0]
    return Path(word) if word.endswith(SUFFIX) else None


@contextmanager
def runnable(command: Sequence[str]) -> Iterator[Sequence[str]]:
    """A command that Python runs: for a notebook, one that runs the text of its cells; raises `LaunchError`.

    Lines that are no Python, such as `!pip install`, do not run.
    """
    notebook = notebook_of(command)
    if notebook is None:
        yield command
        return
    try:
        text = SourceFile.read(notebook).text
    except (OSError, SourceError) as error:
        raise LaunchError(f"cannot read {notebook}: {error}") from None
    is_first = command[0].endswith(SUFFIX)
    python = sys.executable if is_first else command[0]
    with TemporaryDirectory(prefix="torchlint-") as folder:
        program = Path(folder, "program.py")
        program.write_bytes(text.encode())
        yield [python, str(_RUNNER), str(program), str(notebook), *command[1 if is_first else 2 :]]
