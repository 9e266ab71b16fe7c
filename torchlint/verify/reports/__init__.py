"""Reports of a verification, one module per format."""

from __future__ import annotations

from importlib import import_module

from torchlint.verify.session import Verification

FORMATS = {
    "text": "for people",
    "json": "an object, described in docs/verify-report.schema.json",
    "sarif": "SARIF 2.1.0: confirmed findings rank first, refuted ones are suppressed",
}


def render(name: str, verification: Verification, colour: bool) -> str:
    """The report in the format `name`."""
    text: str = import_module(f"{__name__}.{name}").render(verification, colour)
    return text
