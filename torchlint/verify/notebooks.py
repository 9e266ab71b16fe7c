"""The command that runs a notebook: its code cells are one program, as the linter reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from torchlint.files.ipython import SUFFIX
from torchlint.files.source import SourceError, SourceFile
from torchlint.verify.launch import LaunchError

_RUNNER = Path(__file__).with_name("run_notebook.py")


class NotebookCommand(NamedTuple):
    """The parts of `train.ipynb --epochs 1` or `python train.ipynb --epochs 1`."""

    python: str
    """The interpreter as the user wrote it; this one if there is none."""
    notebook: Path
    arguments: tuple[str, ...]


def notebook_command(command: Sequence[str]) -> NotebookCommand | None:
    """The parts of a command that runs a notebook; None for another command."""
    is_python = len(command) > 1 and Path(command[0]).stem.startswith("python")
    python, (word, *arguments) = (command[0], command[1:]) if is_python else (sys.executable, command)
    return NotebookCommand(python, Path(word), tuple(arguments)) if word.endswith(SUFFIX) else None


@contextmanager
def runnable(command: Sequence[str]) -> Iterator[Sequence[str]]:
    """A command that Python runs: for a notebook, one that runs the text of its cells; raises `LaunchError`.

    Lines that are no Python, such as `!pip install`, do not run.
    """
    parts = notebook_command(command)
    if parts is None:
        yield command
        return
    try:
        text = SourceFile.read(parts.notebook).text
    except (OSError, SourceError) as error:
        raise LaunchError(f"cannot read {parts.notebook}: {error}") from None
    with TemporaryDirectory(prefix="torchlint-") as folder:
        program = Path(folder, "program.py")
        program.write_bytes(text.encode())
        yield [parts.python, str(_RUNNER), str(program), str(parts.notebook), *parts.arguments]
