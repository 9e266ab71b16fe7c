"""`python -m torchlint`."""

from __future__ import annotations

from torchlint.cli import main

if __name__ == "__main__":
    main()
