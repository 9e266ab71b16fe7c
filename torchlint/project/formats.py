"""The names of the output formats, each with what it is; the format `x` is the module `outputs.x`."""

from __future__ import annotations

from collections.abc import Mapping

FORMATS: Mapping[str, str] = {
    "text": "for people: the source with the place underlined",
    "concise": "one line a finding",
    "json": "Language Server Protocol: an array of PublishDiagnosticsParams",
    "sarif": "SARIF 2.1.0, for code scanning",
    "github": "workflow commands, shown beside the changed lines",
    "gitlab": "code quality report, for merge requests",
    "junit": "JUnit XML, for whatever shows test results",
    "html": "a page that stands alone, with the code and filters",
}
