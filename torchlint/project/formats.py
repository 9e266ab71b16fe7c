"""The names and descriptions of the output formats; the module of `a-b` is `outputs.a_b`."""

from __future__ import annotations

from collections.abc import Mapping

FORMATS: Mapping[str, str] = {
    "text": "for people: the code, with the finding underlined",
    "concise": "one line per finding",
    "json": "for tools: the format of the Language Server Protocol",
    "json-flat": "for scripts: an array with one flat object per finding",
    "json-lines": "for scripts: the same objects, one on each line",
    "sarif": "for code scanning: SARIF 2.1.0",
    "github": "for GitHub: workflow commands, shown beside the changed lines",
    "gitlab": "for GitLab: a code quality report, shown in merge requests",
    "junit": "for tools that show test results: JUnit XML",
    "azure": "for Azure Pipelines: logging commands",
    "rdjson": "for reviewdog: comments on pull requests, with fixes",
    "pylint": "one line per finding, in pylint's format",
    "html": "for colleagues: a single page, with the code and filters",
}
