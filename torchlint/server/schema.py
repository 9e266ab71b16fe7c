"""The settings of an editor as JSON Schema, for those that show them: Visual Studio Code and JupyterLab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SELECTORS = {"type": "array", "items": {"type": "string"}, "default": []}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "select": {
        **_SELECTORS,
        "description": "Look for these rules only: names, codes, prefixes of codes (TL2) or categories. "
        "This goes before every configuration file.",
    },
    "ignore": {
        **_SELECTORS,
        "description": "Do not look for these rules: names, codes, prefixes of codes (TL2) or categories.",
    },
    "preview": {
        "type": "boolean",
        "default": False,
        "description": "Turn on preview rules and low-confidence findings.",
    },
    "unsafeFixes": {
        "type": "boolean",
        "default": True,
        "description": 'Offer fixes that may change what is computed, marked "(unsafe)".',
    },
    "debounce": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10_000,
        "default": 50,
        "description": "How many milliseconds an edit waits for the next one before the file is linted.",
    },
}
"""The settings that `EditorSettings` reads, by name."""
