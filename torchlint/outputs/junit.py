"""JUnit XML, for services that show test results: GitLab, Jenkins, Azure Pipelines and others."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from torchlint.finding import Finding
from torchlint.outputs import Style
from torchlint.outputs.escaping import html_text, printable
from torchlint.outputs.places import repository_path, shown_elsewhere, shown_place
from torchlint.results import LintedFile, Outcome

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even as a reference."""


def render(outcome: Outcome, style: Style) -> str:
    """A test suite for each file with findings, in which each finding is a test that failed.

    Tests have no line in their names, so that a service knows them again when lines move. A run that finds
    nothing is one test that passed, since Jenkins takes a report without any for a mistake. The document is
    valid by the schema of Jenkins' xUnit plugin, which knows the file of a suite, but none of a test: the class
    of a test is its file, and its text begins with path, line and column.
    """
    root = Element("testsuites", name="torchlint", tests=str(len(outcome.findings) or 1))
    root.set("failures", str(len(outcome.findings)))
    for file in outcome.files:
        _add_suite(root, file)
    if not outcome.findings:
        suite = SubElement(root, "testsuite", name="torchlint", tests="1", failures="0", errors="0")
        SubElement(suite, "testcase", name="no findings", classname="torchlint")
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=True)
    return html_text(data.decode()) + "\n"


def _add_suite(root: Element, file: LintedFile) -> None:
    path, number = _legal(printable(repository_path(file.source.path))), str(len(file.findings))
    suite = SubElement(root, "testsuite", name=path, file=path, tests=number, failures=number, errors="0")
    seen: Counter[str] = Counter()
    for finding in file.findings:
        seen[finding.code] += 1
        times = f" ({seen[finding.code]})" if seen[finding.code] > 1 else ""
        test = SubElement(suite, "testcase", name=f"{finding.code} {finding.name}{times}", classname=path)
        failure = SubElement(test, "failure", type=finding.severity.value, message=_legal(printable(finding.message)))
        failure.text = _legal(_text(file, finding))


def _text(file: LintedFile, finding: Finding) -> str:
    lines = [f"{shown_place(file.source, finding.span.start)}: {printable(finding.message)}"]
    lines += [f"{shown_place(file.source, item.span.start)}: {printable(item.message)}" for item in finding.related]
    lines += [f"{shown_elsewhere(place)}: {printable(place.message)}" for place in finding.elsewhere]
    return "\n".join([*lines, f"help: {printable(finding.help)}"] if finding.help else lines)


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
