"""Runs the text of a notebook as a program, under the path of the notebook. Standard library only.

The program's Python starts this file as a script: `python run_notebook.py TEXT NOTEBOOK ARGUMENTS...`.
"""

from __future__ import annotations

import linecache
import os
import sys
from types import ModuleType


def main() -> None:
    """Run the text as Jupyter would: in the folder of the notebook, with `display`."""
    text_path, notebook, *arguments = sys.argv[1:]
    with open(text_path, encoding="utf-8", newline="") as file:
        text = file.read()
    path = os.path.realpath(notebook)
    folder = os.path.dirname(path)
    sys.argv = [path, *arguments]
    sys.path[0] = folder
    os.chdir(folder)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)  # for tracebacks
    module = ModuleType("__main__")
    module.__dict__["display"] = print
    sys.modules["__main__"] = module
    exec(compile(text, path, "exec"), module.__dict__)


if __name__ == "__main__":
    main()
