"""The names of the output formats, each with what it is; the format `a-b` is the module `outputs.a_b`."""

from __future__ import annotations

from collections.abc import Mapping

FORMATS: Mapping[str, str] = {
    "text": "for people: the source with the place underlined",
    "concise": "one line a finding",
    "json": "Language Server Protocol: an array of PublishDiagnosticsParams",
    "json-flat": "an array with one flat object for each finding, for scripts",
    "json-lines": "the same objects, one on each line",
    "sarif": "SARIF 2.1.0, for code scanning",
    "github": "workflow commands, shown beside the changed lines",
    "gitlab": "code quality report, for merge requests",
    "junit": "JUnit XML, for whatever shows test results",
    "azure": "logging commands, shown as issues of the run by Azure Pipelines",
    "rdjson": "reviewdog's diagnostics with fixes, for comments on pull requests",
    "pylint": "one line a finding as pylint prints it, for what reads that",
    "html": "a page that stands alone, with the code and filters",
}
