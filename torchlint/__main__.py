"""`python -m torchlint`, which imports nothing more from the working folder: a checkout may hold a `click.py`."""

from __future__ import annotations

import os
import sys

if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)) and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]

from torchlint.cli import main

if __name__ == "__main__":
    main()
