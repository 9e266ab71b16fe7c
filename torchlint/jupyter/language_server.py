"""The specification of the language server for jupyter-lsp, through the entry point `jupyter_lsp_spec_v1`."""

from __future__ import annotations

import sys
from typing import Any

from torchlint.server.installation import INSTALL, MISSING, is_installed
from torchlint.server.schema import SETTINGS

_START = "import sys; sys.path[:] = filter(None, sys.path); from torchlint.cli import main; main()"
"""Starts torchlint as its command does: nothing is imported from the working folder, which holds the notebooks."""


class SpecFinder:
    """Finds the language server in the environment of jupyter-lsp, which calls this by duck typing."""

    def is_installed(self, manager: Any) -> bool:
        """Whether it can be started; if not, the log of Jupyter says what to install."""
        if is_installed():
            return True
        manager.log.warning("torchlint: %s", MISSING)
        return False

    def __call__(self, manager: Any) -> dict[str, dict[str, Any]]:
        """The server by name; the form is version 2 of jupyter-lsp's schema."""
        return {
            "torchlint": {
                "version": 2,
                "display_name": "torchlint",
                "argv": [sys.executable, "-c", _START, "server"],
                "languages": ["python"],
                "mime_types": ["text/x-python", "text/x-ipython"],
                "install": {"pip": INSTALL},
                "troubleshoot": MISSING,
                "requires_documents_on_disk": False,
                "config_schema": {
                    "title": "torchlint",
                    "description": "These go before the configuration files of a project.",
                    "type": "object",
                    "properties": {f"torchlint.{name}": dict(schema) for name, schema in SETTINGS.items()},
                },
            }
        }


spec_finder = SpecFinder()
