"""Prints what the changelog says of a version; fails if the package has another one or documents say "not released".

python .ci/changes.py 0.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def changes(wanted: str) -> str:
    """The part of the changelog; raises `SystemExit` with what is wrong."""
    package = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    if package is None or package[1] != wanted:
        raise SystemExit(f"pyproject.toml: the version is {package and package[1]}, and not {wanted}")
    parts = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.M)
    found = [part for part in parts if part.startswith(f"[{wanted}] - ")]
    if not found:
        raise SystemExit(f"CHANGELOG.md: nothing is said of {wanted}")
    return found[0].partition("\n")[2].strip() + "\n"


def check_switch() -> None:
    """Raise `SystemExit` if the documents do not say that the package is released."""
    if "\nIS_RELEASED = True\n" not in (ROOT / "torchlint" / "addresses.py").read_text("utf-8"):
        raise SystemExit("torchlint/addresses.py: IS_RELEASED is not True: see docs/releasing.md")


if __name__ == "__main__":
    check_switch()
    sys.stdout.write(changes(sys.argv[1]))
