"""Messages as HTML: what stands in backticks is code."""

from __future__ import annotations

import re
from html import escape

from torchlint.outputs.escaping import printable

_CODE = re.compile("``(.+?)``|`([^`]+)`")


def prose(text: str) -> str:
    """A text of one line, escaped, with its code in tags."""
    return _CODE.sub(lambda match: f"<code>{match[1] or match[2]}</code>", escape(printable(text)))
