"""The names and descriptions of the output formats; the module of `a-b` is `outputs.a_b`."""

from __future__ import annotations

from collections.abc import Mapping

FORMATS: Mapping[str, str] = {
    "text": "the source with the finding underlined, for people",
    "concise": "one line per finding",
    "json": "an array of PublishDiagnosticsParams, as in the Language Server Protocol",
    "json-flat": "an array with one flat object per finding, for scripts",
    "json-lines": "the same objects, one on each line",
    "sarif": "SARIF 2.1.0, for code scanning",
    "github": "workflow commands, shown beside the changed lines",
    "gitlab": "code quality report, for merge requests",
    "junit": "JUnit XML, for tools that show test results",
    "azure": "logging commands, for Azure Pipelines",
    "rdjson": "reviewdog's diagnostics with fixes, for comments on pull requests",
    "pylint": "one line per finding, as pylint prints it",
    "html": "a single page, with the code and filters",
}
