"""Start the torchlint that the extension brings along: `python -I start.py server`."""

import sys
from pathlib import Path


def start() -> None:
    """Run torchlint from `libs`; the environment of the interpreter comes after it."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "libs"))
    from torchlint.cli import main

    main()


if __name__ == "__main__":
    start()
