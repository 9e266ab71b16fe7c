"""Findings of an earlier run, perhaps on another machine: torchlint's own JSON, matched with the local sources."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlparse

from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Confidence, Finding, Position, Related, Severity, Span, fingerprint
from torchlint.verify.session import Subject

_SEVERITIES = {1: Severity.ERROR, 2: Severity.WARNING, 3: Severity.INFORMATION, 4: Severity.HINT}
_DUPLICATES = 200
"""A fingerprint counts equal lines. This is the maximum number of tries."""
STALE = "the source has changed since the finding: lint again"
NOTEBOOK = "it is in a notebook, but only scripts and modules can be verified: export it as a script and lint that"


class FindingsError(Exception):
    """The file contains no findings of torchlint; the message names it."""


def read(path: Path) -> list[Subject]:
    """The findings of a file as `torchlint --output-format json` writes it, in its order; raises `FindingsError`."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FindingsError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise FindingsError(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise FindingsError(f"{path} is nested too deeply") from None
    try:
        if not isinstance(data, list):
            raise TypeError("not an array")
        return [subject for published in data for subject in _subjects(published)]
    except KeyError as error:
        raise FindingsError(f"{path} is not what `torchlint --output-format json` writes: {error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise FindingsError(f"{path} is not what `torchlint --output-format json` writes: {error}") from None


def _subjects(published: dict[str, Any]) -> Iterator[Subject]:
    given = _path(published["uri"])
    if SourceFile(given, b"").is_notebook:
        source, problem = _notebook(given, urlparse(published["uri"]).fragment), NOTEBOOK
    else:
        source, problem = _source(_here(given), given)
    for diagnostic in published["diagnostics"]:
        finding = _finding(diagnostic, source, published["uri"])
        stale = "" if problem or _matches(finding, source) else STALE
        yield Subject(finding, source, problem or stale)


def _path(uri: str) -> str:
    parsed = urlparse(uri)
    if parsed.scheme != "file":
        raise ValueError(f"not the address of a file: {uri}")
    path = unquote(parsed.path)
    drive = len(path) > 2 and path[0] == "/" and path[2] == ":"
    return path[1:] if drive else path


def _here(given: str) -> Path | None:
    """The file on this machine: at its path, or where the end of its path is below this folder."""
    if os.path.isfile(given):
        return Path(given)
    parts = PurePosixPath(given).parts[1:]
    for start in range(len(parts)):
        candidate = Path.cwd().joinpath(*parts[start:])
        if candidate.is_file():
            return candidate
    return None


def _notebook(given: str, cell: str) -> SourceFile:
    """The cell that a report names; its text is not needed."""
    return SourceFile(f"{given}#{cell}" if cell else given, b"")


def _source(found: Path | None, given: str) -> tuple[SourceFile, str]:
    if found is None:
        return SourceFile(given, b""), f"{given} does not exist here"
    try:
        shown = os.path.relpath(found) if found.is_relative_to(Path.cwd()) else str(found)
        source = SourceFile.read(found, shown)
        source.lines  # noqa: B018 - decodes it
    except (SourceError, OSError) as error:
        return SourceFile(str(found), b""), f"{found} cannot be read: {error}"
    return source, ""


def _finding(diagnostic: dict[str, Any], source: SourceFile, uri: str) -> Finding:
    data = diagnostic["data"]
    return Finding(
        path=source.path,
        name=_text(data["name"]),
        code=_text(diagnostic["code"]),
        message=_text(diagnostic["message"]),
        span=_span(diagnostic["range"], source),
        severity=_SEVERITIES[diagnostic["severity"]],
        confidence=Confidence(data["confidence"]),
        related=tuple(
            Related(_span(item["location"]["range"], source), _text(item["message"]))
            for item in diagnostic.get("relatedInformation", ())
            if item["location"]["uri"] == uri
        ),
        help=_text(data["help"]),
        fingerprint=_text(data["fingerprint"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} should be a string")
    return value


def _span(data: dict[str, dict[str, int]], source: SourceFile) -> Span:
    return Span(_position(data["start"], source), _position(data["end"], source))


def _position(data: dict[str, int], source: SourceFile) -> Position:
    """From UTF-16 columns, as the Language Server Protocol counts, to code points."""
    line, character = int(data["line"]), int(data["character"])
    text = source.line(line + 1) if source.data else ""
    before = text.encode("utf-16-le", "surrogatepass")[: character * 2]
    return Position(line + 1, len(before.decode("utf-16-le", "replace")))


def _matches(finding: Finding, source: SourceFile) -> bool:
    """Whether the line is unchanged: its text is part of the fingerprint."""
    line = source.line(finding.span.start.line)
    prints = (fingerprint(finding.name, line, number) for number in range(1, _DUPLICATES))
    return not finding.fingerprint or finding.fingerprint in prints
